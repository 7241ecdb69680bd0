//! Which browser a call asks for.

use serde_json::Value;

/// The parameters that Greenroom adds to the tools, under the names they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub pool: String,
    pub instance: String,
}

impl Parameters {
    pub const POOL: &str = "browser_pool";
    pub const INSTANCE: &str = "browser_instance";

    /// A name that the tool uses itself gets a prefix.
    pub fn beside(is_taken: impl Fn(&str) -> bool) -> Self {
        let free = |name: &str| if is_taken(name) { format!("greenroom_{name}") } else { name.to_owned() };
        Self { pool: free(Self::POOL), instance: free(Self::INSTANCE) }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self::beside(|_| false)
    }
}

/// What a call says about where it wants to run, as it was written.
#[derive(Clone, Debug, Default)]
pub struct Address {
    pub pool: Option<Value>,
    pub instance: Option<Value>,
}

/// Where a call is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub pool: String,
    /// The number or alias of one instance; otherwise any will do.
    pub instance: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("Invalid pool name in browser_pool: {0}")]
    InvalidPool(UnknownPool),
    #[error(transparent)]
    UnknownPool(#[from] UnknownPool),
    #[error("`{parameter}` has to be a text.")]
    NotText { parameter: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no pool `{name}`. The pools are: {}.", valid.join(", "))]
pub struct UnknownPool {
    pub name: String,
    pub valid: Vec<String>,
}

/// Decides where a call runs. `pools` are the names that there are, the default first.
pub fn resolve<'a>(
    address: &Address,
    pools: impl Iterator<Item = &'a str> + Clone,
) -> Result<Target, AddressError> {
    let named = text(address.pool.as_ref(), Parameters::POOL)?;
    let instance = text(address.instance.as_ref(), Parameters::INSTANCE)?;
    let pool = match named {
        None => pools.clone().next(),
        Some(name) => {
            let found = pools.clone().find(|pool| *pool == name);
            if found.is_none() {
                let valid = pools.map(str::to_owned).collect();
                return Err(AddressError::InvalidPool(UnknownPool { name, valid }));
            }
            found
        }
    };
    Ok(Target { pool: pool.expect("there is at least one pool").to_owned(), instance })
}

/// Agents fill in what they need not: nothing and the empty text mean that they do not care. Numbers are what an
/// instance's name looks like.
fn text(value: Option<&Value>, parameter: &'static str) -> Result<Option<String>, AddressError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(AddressError::NotText { parameter }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Address, AddressError, Parameters, Target, resolve};

    fn target(pool: Value, instance: Value) -> Result<Target, AddressError> {
        resolve(&Address { pool: Some(pool), instance: Some(instance) }, ["MAIN", "OTHER"].into_iter())
    }

    fn at(pool: &str, instance: Option<&str>) -> Result<Target, AddressError> {
        Ok(Target { pool: pool.to_owned(), instance: instance.map(str::to_owned) })
    }

    #[test]
    fn who_names_no_pool_gets_the_default() {
        assert_eq!(resolve(&Address::default(), ["MAIN", "OTHER"].into_iter()), at("MAIN", None));
        assert_eq!(target(Value::Null, json!("")), at("MAIN", None));
        assert_eq!(target(json!("OTHER"), json!("main_browser")), at("OTHER", Some("main_browser")));
        assert_eq!(target(json!(""), json!(2)), at("MAIN", Some("2")));
    }

    #[test]
    fn an_unknown_pool_is_an_error_that_lists_the_valid_ones() {
        assert_eq!(
            target(json!("main"), Value::Null).unwrap_err().to_string(),
            "Invalid pool name in browser_pool: there is no pool `main`. The pools are: MAIN, OTHER."
        );
        assert_eq!(
            target(json!({}), Value::Null).unwrap_err().to_string(),
            "`browser_pool` has to be a text."
        );
    }

    #[test]
    fn a_name_that_is_taken_gets_a_prefix() {
        let beside = Parameters::beside(|name| name == "browser_pool");
        assert_eq!(beside.pool, "greenroom_browser_pool");
        assert_eq!(beside.instance, "browser_instance");
    }
}
