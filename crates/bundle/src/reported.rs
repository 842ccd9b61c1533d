//! Values that programs read in another form than the library works with.

/// Serializes a value as its report, and describes that in schemas.
macro_rules! reported_as {
    ($value:ty, $report:ty) => {
        impl serde::Serialize for $value {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$report>::from(self).serialize(serializer)
            }
        }

        impl schemars::JsonSchema for $value {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$report>::schema_name()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$report>::json_schema(generator)
            }
        }
    };
}
