//! Types that are written as a text of one form.

/// Makes a type that is read from a text, is written as one, and says its form in the schema.
#[macro_export]
macro_rules! as_text {
    ($name:ident, $format:literal, $types:tt) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(::serde::Deserialize)]
                #[serde(untagged)]
                enum Raw {
                    Number(u64),
                    Text(String),
                }
                let text = match <Raw as ::serde::Deserialize>::deserialize(deserializer)? {
                    Raw::Number(number) => number.to_string(),
                    Raw::Text(text) => text,
                };
                text.parse().map_err(|error| ::serde::de::Error::custom(format_args!("{text}: {error}")))
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({ "type": $types, "format": $format })
            }
        }
    };
}

/// A text whose form was checked.
#[macro_export]
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $format:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Of a literal, which is not checked.
            pub fn of(text: &'static str) -> Self {
                Self(text.to_owned())
            }

            /// As it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let check: fn(&str) -> Result<(), String> = $check;
                check(text).map(|()| Self(text.to_owned()))
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        $crate::as_text!($name, $format, "string");
    };
}

checked_text!(
    /// A definition's hash: 64 hexadecimal digits as events have it, `sha256:` before it or not.
    Hash, "hash", |text| hexadecimal(text, &["sha256:", ""])
);

impl Hash {
    /// The digits alone.
    pub fn digits(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }
}

/// Checks a text that is one of these beginnings and 64 hexadecimal digits.
///
/// # Errors
/// It is not; says what is wrong with it.
pub fn hexadecimal(text: &str, prefixes: &[&str]) -> Result<(), String> {
    let digits =
        prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)).ok_or("its beginning is another")?;
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(())
    } else {
        Err(format!("it has {} characters, or not all are digits", digits.chars().count()))
    }
}
