import js from '@eslint/js';
import globals from 'globals';

const strict = {
  ...js.configs.recommended.rules,
  'consistent-return': 'error',
  eqeqeq: 'error',
  'no-constructor-return': 'error',
  'no-implicit-coercion': 'error',
  'no-promise-executor-return': 'error',
  'no-self-compare': 'error',
  'no-shadow': 'error',
  'no-template-curly-in-string': 'error',
  'no-throw-literal': 'error',
  'no-unused-vars': 'error',
  'no-use-before-define': ['error', { functions: false, classes: false, variables: false }],
  'no-var': 'error',
  'object-shorthand': 'error',
  'prefer-const': 'error',
  'prefer-promise-reject-errors': 'error',
  'require-atomic-updates': 'error',
};

export default [
  {
    files: ['**/*.cjs'],
    languageOptions: { ecmaVersion: 2023, sourceType: 'commonjs', globals: globals.node },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: { ...strict, strict: ['error', 'global'] },
  },
  {
    files: ['**/*.mjs'],
    languageOptions: { ecmaVersion: 2025, sourceType: 'module', globals: globals.node },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: strict,
  },
  {
    files: ['**/ui/**/*.js'],
    languageOptions: { ecmaVersion: 2023, sourceType: 'module', globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    // A button that was disabled for as long as something takes is enabled by the same function.
    rules: { ...strict, 'require-atomic-updates': 'off' },
  },
];
