//! One entry for tools of one name that are not the same: what fits either of them fits it, and where a call goes decides.

use serde_json::{Map, Value, json};

use super::{UpstreamTool, Variant};

/// How much is said of each.
const LETTERS: usize = 200;

pub(super) fn of(variants: &[Variant<'_>]) -> UpstreamTool {
    let described: Vec<Value> = variants
        .iter()
        .map(|variant| serde_json::from_str(variant.tool.raw.get()).expect("it was read before"))
        .collect();
    let mut union = described[0].clone();
    union["description"] = description(variants, &described).into();
    union["inputSchema"] = schema(&described.iter().map(|tool| &tool["inputSchema"]).collect::<Vec<_>>());
    // What does not hold for all of them is not said.
    for name in ["title", "annotations", "outputSchema", "_meta"] {
        if described.iter().any(|tool| tool.get(name) != described[0].get(name))
            && let Some(union) = union.as_object_mut()
        {
            union.remove(name);
        }
    }
    let raw = serde_json::value::to_raw_value(&union).expect("JSON stays JSON");
    UpstreamTool::read(raw).expect("it has a name and a schema")
}

/// What each of them does, and where. Said once where they say the same.
fn description(variants: &[Variant<'_>], described: &[Value]) -> String {
    let text = |tool: &Value| tool["description"].as_str().unwrap_or_default().to_owned();
    if described.iter().all(|tool| text(tool) == text(&described[0])) {
        return text(&described[0]);
    }
    let said = variants
        .iter()
        .zip(described)
        .map(|(variant, tool)| format!("{}: {}", variant.places.join(", "), beginning(&text(tool))));
    format!("Depends on where it runs. {}", said.collect::<Vec<_>>().join(" "))
}

/// The first sentence, and not too much of that.
fn beginning(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let sentence = line.split_inclusive(". ").next().unwrap_or_default().trim_end();
    if sentence.chars().count() <= LETTERS {
        return sentence.to_owned();
    }
    sentence.chars().take(LETTERS).chain(['…']).collect()
}

fn schema(schemas: &[&Value]) -> Value {
    let part = |schema: &Value, name: &str| schema[name].as_object().cloned().unwrap_or_default();
    let mut union = if schemas[0].is_object() { schemas[0].clone() } else { json!({ "type": "object" }) };
    for name in ["properties", "$defs", "definitions"] {
        let mut all = Map::new();
        for (key, value) in schemas.iter().flat_map(|schema| part(schema, name)) {
            match all.get_mut(&key) {
                Some(known) => *known = either(known.take(), value),
                None => drop(all.insert(key, value)),
            }
        }
        if !all.is_empty() {
            union[name] = all.into();
        }
    }
    let needs = |schema: &Value, name: &Value| {
        schema["required"].as_array().is_some_and(|required| required.contains(name))
    };
    let required = union["required"].as_array().cloned().unwrap_or_default();
    let required: Vec<Value> =
        required.into_iter().filter(|name| schemas.iter().all(|schema| needs(schema, name))).collect();
    union["required"] = required.into();
    if schemas.iter().any(|schema| schema["additionalProperties"] != Value::Bool(false))
        && let Some(union) = union.as_object_mut()
    {
        union.remove("additionalProperties");
    }
    union
}

/// What fits one of two schemas.
fn either(known: Value, other: Value) -> Value {
    if known == other {
        return known;
    }
    let mut choices = match known {
        Value::Object(mut known) if known.len() == 1 && known.contains_key("anyOf") => {
            known.remove("anyOf").and_then(|choices| choices.as_array().cloned()).unwrap_or_default()
        }
        known => vec![known],
    };
    if !choices.contains(&other) {
        choices.push(other);
    }
    json!({ "anyOf": choices })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{UpstreamTool, Variant};
    use super::of;

    fn tool(schema: &Value, description: &str) -> UpstreamTool {
        let tool =
            json!({ "name": "go", "description": description, "inputSchema": schema, "title": description });
        UpstreamTool::read(serde_json::value::to_raw_value(&tool).unwrap()).unwrap()
    }

    #[test]
    fn what_fits_one_of_two_tools_fits_their_union() {
        let first = tool(
            &json!({
                "type": "object", "additionalProperties": false, "required": ["to", "how"],
                "properties": { "to": { "type": "string" }, "how": { "type": "string" } },
            }),
            "Goes somewhere. And more.",
        );
        let second = tool(
            &json!({
                "type": "object", "additionalProperties": false, "required": ["to"],
                "properties": { "to": { "type": "integer" }, "why": { "type": "string" } },
            }),
            "Goes to a number.",
        );
        let union = of(&[
            Variant { tool: &first, places: vec!["MAIN", "SIDE"] },
            Variant { tool: &second, places: vec!["browser [1]"] },
        ]);
        let union: Value = serde_json::from_str(union.raw.get()).unwrap();
        assert_eq!(
            union,
            json!({
                "name": "go",
                "description": "Depends on where it runs. MAIN, SIDE: Goes somewhere. browser [1]: Goes to a number.",
                "inputSchema": {
                    "type": "object", "additionalProperties": false, "required": ["to"],
                    "properties": {
                        "to": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
                        "how": { "type": "string" }, "why": { "type": "string" },
                    },
                },
            })
        );
    }

    #[test]
    fn what_both_say_is_said_once_and_an_open_schema_stays_open() {
        let first = tool(&json!({ "type": "object", "additionalProperties": false }), "Goes.");
        let second = tool(&json!({ "type": "object" }), "Goes.");
        let union =
            of(&[Variant { tool: &first, places: vec!["A"] }, Variant { tool: &second, places: vec!["B"] }]);
        let read: Value = serde_json::from_str(union.raw.get()).unwrap();
        assert_eq!((&read["description"], &read["title"]), (&json!("Goes."), &json!("Goes.")));
        assert_eq!(read["inputSchema"]["additionalProperties"], Value::Null);
        assert!(!union.is_closed);
    }
}
