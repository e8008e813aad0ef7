use std::path::Path;

use super::{super::network::Form, *};

fn entry() -> Entry {
    Entry::from_template(
        r#"{"type":"mesh","linkerd":{"proxy-uid":2102}}"#,
        Path::new("/k"),
        None,
    )
    .unwrap()
}

fn add(text: &str) -> Option<String> {
    let network = Network::parse(text.as_bytes(), Form::List).unwrap();
    let with = with_entry(text.as_bytes(), &network.plugins, &entry());
    with.map(|t| String::from_utf8(t).unwrap())
}

fn take(text: &str) -> Without {
    without_entry(
        text.as_bytes(),
        &Network::parse(text.as_bytes(), Form::List).unwrap(),
        "mesh",
    )
}

const LISTS: [&str; 6] = [
    r#"{"name":"n","plugins":[{"type":"a"}]}"#,
    r#"{"plugins":[{"type":"a"}, {"type":"b","n":1.0e+20,"s":"\u00e9\/"}],"name":"n"}"#,
    "{\n  \"name\": \"n\",\n  \"plugins\": [\n    {\n      \"type\": \"a\"\n    }\n  ]\n}\n",
    "{\r\n\t\"name\": \"n\",\r\n\t\"plugins\": [\r\n\t\t{ \"type\": \"a\" },\r\n\t\t{ \"type\": \"b\" }\r\n\t]\r\n}",
    "  {\"name\":\"n\",\"plugins\" : [ {\"type\":\"a\"} , {\"type\":\"b\"} ] , \"x\":[{\"type\":\"mesh\"}]}  ",
    r#"{"plugins":7,"name":"o","plugins":[{"type":"x","type":"a"}],"name":"n"}"#,
];

#[test]
fn inserted_entry_is_removed_byte_for_byte() {
    for text in LISTS {
        let with = add(text).unwrap();
        serde_json::from_str::<Value>(&with).unwrap_or_else(|e| panic!("{with}: {e}"));
        assert_eq!(add(&with), None, "a second time changes nothing: {with}");
        assert_eq!(take(&with), Without::Text(text.as_bytes().to_vec()), "{with}");
    }
}

#[test]
fn entry_is_indented_like_its_neighbours() {
    let with = add(LISTS[2]).unwrap();
    assert_eq!(
        with,
        "{\n  \"name\": \"n\",\n  \"plugins\": [\n    {\n      \"type\": \"a\"\n    },\n    {\n      \
         \"capabilities\": {\n        \"io.kubernetes.cri.pod-annotations\": true\n      },\n      \
         \"linkerd\": {\n        \"proxy-uid\": 2102\n      },\n      \"type\": \"mesh\"\n    }\n  ]\n}\n"
    );
}

#[test]
fn existing_entry_keeps_its_place() {
    let ours = entry().object().to_string();
    let early = format!(r#"{{"name":"n","plugins":[{{"type":"a"}},{ours},{{"type":"last"}}]}}"#);
    assert_eq!(add(&early), None);
    let stale = r#"{"name":"n","plugins":[{"type":"a"},{"type":"mesh","old":1},{"type":"last"}]}"#;
    assert_eq!(add(stale).unwrap(), early);
    let twice =
        format!(r#"{{"name":"n","plugins":[{{"type":"a"}},{{"type":"mesh"}},{{"type":"last"}}, {ours}]}}"#);
    assert_eq!(add(&twice).unwrap(), early);
}

#[test]
fn later_change_by_a_neighbour_is_kept() {
    let with = add(LISTS[2])
        .unwrap()
        .replace("\"a\"", "\"c\"")
        .replace("\"n\"", "\"other\"");
    let wanted = LISTS[2].replace("\"a\"", "\"c\"").replace("\"n\"", "\"other\"");
    assert_eq!(take(&with), Without::Text(wanted.into_bytes()));
}

#[test]
fn list_of_ours_alone_leaves_nothing() {
    assert_eq!(
        take(r#"{"name":"n","plugins":[{"type":"mesh"}]}"#),
        Without::Nothing
    );
    for first in [
        r#"{"name":"n","plugins":[{"type":"mesh"} , {"type":"a"}]}"#,
        r#"{"name":"n","plugins":[{"type":"mesh"},{"type":"mesh", "x":1}, {"type":"a"}, {"type":"mesh"}]}"#,
    ] {
        assert_eq!(
            take(first),
            Without::Text(br#"{"name":"n","plugins":[{"type":"a"}]}"#.to_vec())
        );
    }
}

#[test]
fn single_plugin_becomes_list_with_name_and_version() {
    let text = "\n{\"cniVersion\": \"1.0.0\", \"name\": \"mynet\", \"type\": \"bridge\"}\n";
    let single = Network::parse(text.as_bytes(), Form::Single).unwrap();
    let list = String::from_utf8(list_from_single(text.as_bytes(), &single.plugins[0], &entry())).unwrap();
    let value: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(value["cniVersion"], "1.0.0");
    assert_eq!(value["name"], "mynet");
    assert_eq!(value["plugins"][0]["type"], "bridge");
    assert_eq!(value["plugins"][1], *entry().object());
    assert!(list.contains(text.trim()), "{list}");
    assert_eq!(add(&list), None);
}
