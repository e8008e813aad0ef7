use super::*;

#[test]
fn it_accepts_and_refuses_what_another_decoder_does() {
    let texts = [
        "",
        " ",
        "{",
        "}",
        "[",
        "{}",
        "[]",
        " {} ",
        "[1,2]",
        "[1,]",
        "[,1]",
        "{\"a\":1}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" : [ { \"b\" : null } , true ] }",
        "[1 2]",
        "{\"a\":1}{",
        "{\"a\"}",
        "\"x",
        "\"\\u00e9\"",
        "\"\\u00\"",
        "\"\\x\"",
        "\"a\u{1}b\"",
        "01",
        "-0",
        "-",
        "1.",
        "1.5e+3",
        "1e",
        "tru",
        "true",
        "nul",
        "null",
        "{1:2}",
        "\u{feff}{}",
        "[[[[]]]]",
        "[}",
        "{]",
        "{\"a\":{\"b\":[{},[]]},\"c\":\"]}\"}",
        "{\"a\":1 \"b\":2}",
    ];
    for text in texts {
        let other: Result<serde_json::Value, _> = serde_json::from_str(text);
        assert_eq!(document(text.as_bytes()).is_ok(), other.is_ok(), "{text:?}");
    }
}

#[test]
fn members_and_elements_are_found_where_they_are() {
    let text = br#" {"a" : [1, {"x":[]} ,"s"], "b":2, "\u0061":{"c":3} } "#;
    let document = document(text).unwrap();
    let show = |span: &Span| String::from_utf8_lossy(&text[span.clone()]).into_owned();
    let found: Vec<_> = members(text, &document)
        .iter()
        .map(|m| (m.name.clone(), show(&m.value)))
        .collect();
    let wanted = [("a", r#"[1, {"x":[]} ,"s"]"#), ("b", "2"), ("a", r#"{"c":3}"#)];
    assert_eq!(found, wanted.map(|(n, v)| (n.to_owned(), v.to_owned())));
    assert_eq!(show(&member(text, &document, "a").unwrap()), r#"{"c":3}"#);
    let array = members(text, &document).remove(0).value;
    assert_eq!(
        elements(text, &array).iter().map(show).collect::<Vec<_>>(),
        ["1", r#"{"x":[]}"#, "\"s\""]
    );
}

#[test]
fn text_that_is_not_utf8_and_text_that_is_deep_are_scanned() {
    assert!(document(b"{\"a\":\"\xff\xfe\"}").is_ok());
    let deep = [vec![b'['; 200_000], vec![b']'; 200_000]].concat();
    assert!(document(&deep).is_ok());
    assert!(document(&deep[..399_999]).is_err());
}
