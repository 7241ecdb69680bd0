//! What JSON means where Rust's types would be stricter, or more lenient, than its schema.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// A whole number, however it is written: in JSON `3.0` is one.
pub(super) fn whole<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let number = Number::deserialize(deserializer)?;
    as_whole(&number).ok_or_else(|| D::Error::custom(format!("{number} is not a whole number that fits")))
}

pub(super) fn whole_or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(None) };
    let whole = as_whole(&number);
    whole.map(Some).ok_or_else(|| D::Error::custom(format!("{number} is not a whole number that fits")))
}

fn as_whole<T: TryFrom<u64>>(number: &Number) -> Option<T> {
    /// Up to here every whole number is a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = number.as_u64().or_else(|| {
        let number =
            number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..EXACT).contains(number))?;
        Some(number as u64)
    });
    T::try_from(whole?).ok()
}

/// An object by the names of its fields. A list of values in their order, which serde takes too, is none.
pub(super) fn object_or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Some(fields) = Option::<Map<String, Value>>::deserialize(deserializer)? else { return Ok(None) };
    T::deserialize(Value::Object(fields)).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize)]
    struct Given {
        #[serde(default, deserialize_with = "super::whole_or_none")]
        count: Option<u8>,
        #[serde(default, deserialize_with = "super::object_or_none")]
        inner: Option<Box<Given>>,
    }

    #[test]
    fn numbers_are_what_json_says_and_objects_are_objects() {
        let count =
            |value| serde_json::from_value::<Given>(json!({ "count": value })).map(|given| given.count);
        assert_eq!(count(json!(3)).ok(), Some(Some(3)));
        assert_eq!(count(json!(3.0)).ok(), Some(Some(3)));
        assert_eq!(count(json!(null)).ok(), Some(None));
        for wrong in [json!(3.5), json!(-1), json!(256), json!("3"), json!(1e300)] {
            assert!(count(wrong.clone()).is_err(), "{wrong}");
        }
        let inner = |value| serde_json::from_value::<Given>(json!({ "inner": value }));
        assert!(inner(json!({ "count": 1 })).is_ok_and(|given| given.inner.is_some()));
        assert!(inner(json!([1, null])).is_err());
    }
}
