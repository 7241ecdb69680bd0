//! Columns of text, each as wide as it needs to be.

pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    pub(crate) fn row(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    pub(crate) fn indented(&self, indent: &str) -> String {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..N).map(width).collect();
        let line = |row: &[String; N]| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            format!("{indent}{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        };
        self.rows.iter().map(line).collect()
    }
}
