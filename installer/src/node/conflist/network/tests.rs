use super::*;

fn shown<'a>(text: &'a [u8], span: &Span) -> Cow<'a, str> {
    String::from_utf8_lossy(&text[span.clone()])
}

#[test]
fn plugins_are_located_where_they_are() {
    let text = br#" {"plugins" : [ {"type":"a", "x":[]} ,{"\u0074ype":"b"}], "name":"n"} "#;
    let network = Network::parse(text, Form::List).unwrap();
    let found: Vec<_> = network
        .plugins
        .iter()
        .map(|p| (p.type_name.as_str(), shown(text, &p.span)))
        .collect();
    assert_eq!(found[0], ("a", r#"{"type":"a", "x":[]}"#.into()));
    assert_eq!(found[1], ("b", r#"{"\u0074ype":"b"}"#.into()));
    assert_eq!(shown(text, &member(text, "name").unwrap()), "\"n\"");
}

#[test]
fn last_member_of_a_name_counts() {
    let text = br#"{"plugins":7,"name":"o","plugins":[{"type":"x","type":"a"}],"name":"n"}"#;
    let network = Network::parse(text, Form::List).unwrap();
    assert_eq!(
        (network.name.as_str(), network.plugins[0].type_name.as_str()),
        ("n", "a")
    );
}

#[test]
fn bytes_that_are_not_utf8_keep_their_spans() {
    let text = b"{\"name\":\"n\",\"note\":\"\xff\xfe\xe2\x82\",\"plugins\":[{\"type\":\"a\"}]}";
    let network = Network::parse(text, Form::List).unwrap();
    assert_eq!(shown(text, &network.plugins[0].span), r#"{"type":"a"}"#);
    assert!(Network::parse(b"\xff{}", Form::List).is_err());
}

#[test]
fn deeply_nested_values_are_skipped() {
    let deep = ["[".repeat(200_000), "]".repeat(200_000)].concat();
    let text = format!(r#"{{"name":"n","x":{deep},"plugins":[{{"type":"a"}}]}}"#);
    assert!(Network::parse(text.as_bytes(), Form::List).is_ok());
}

#[test]
fn unloadable_text_is_refused_with_the_reason() {
    for (text, form, reason) in [
        ("", Form::List, "not JSON"),
        ("{\"name\":\"n\",", Form::List, "not JSON"),
        ("[]", Form::List, "not a JSON object"),
        ("{\"foo\":1}", Form::List, "no `name`"),
        ("{\"name\":\"n\"}", Form::List, "no `plugins`"),
        ("{\"name\":\"n\",\"plugins\":[]}", Form::List, "are empty"),
        ("{\"name\":\"n\",\"plugins\":[{}]}", Form::List, "without `type`"),
        ("{\"name\":\"n\",\"plugins\":[1]}", Form::List, "without `type`"),
        (
            "{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"}]}",
            Form::Single,
            "without `type`",
        ),
        (
            "\u{feff}{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"}]}",
            Form::List,
            "not JSON",
        ),
    ] {
        let error = Network::parse(text.as_bytes(), form).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn chain_programs_pods_with_our_entry_or_a_linkerd_cnis() {
    let read = |text: &str| Chain::read(text.as_bytes(), "evergreen-cni");
    for (plugins, with_us) in [
        (r#"{"type":"calico"}"#, false),
        (r#"{"type":"calico"},{"type":"evergreen-cni"}"#, true),
        (
            r#"{"type":"calico"},{"type":"mesh","linkerd":{"proxy-uid":2102}}"#,
            true,
        ),
    ] {
        let name = "net".to_owned();
        assert_eq!(
            read(&format!(r#"{{"name":"net","plugins":[{plugins}]}}"#)),
            Some(Chain { name, with_us }),
            "{plugins}"
        );
    }
    for text in [
        "",
        "{",
        r#"{"name":"net","type":"calico"}"#,
        r#"{"name":"net","plugins":[]}"#,
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}
