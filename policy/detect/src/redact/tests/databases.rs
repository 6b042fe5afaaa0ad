//! Addresses of databases and connection strings: their own tables of what is a secret and what is none.

use super::super::redact_argv;

/// Secrets that no form and no name tells.
const SECRET: &str = "Qu1ttenmus";

fn argv(line: &str) -> Vec<String> {
    let (words, _) = crate::redact::shell::commands(line);
    words.into_iter().flatten().map(|word| word.text).collect()
}

/// Command lines, with `#` in place of each secret.
const SECRETS: &[&str] = &[
    "java -jar m.jar 'jdbc:sqlserver://db.test:1433;databaseName=shop;user=lena;password=#'",
    "java -jar m.jar 'jdbc:sqlserver://db.test:1433;password=#;user=lena'",
    "tool --jdbc-url 'jdbc:sqlserver://db.test\\SHOP;user=lena;Password=#;encrypt=true'",
    "tool '--url=jdbc:sqlserver://db.test;user=lena;PWD=#;encrypt=true'",
    "tool 'jdbc:sqlserver://db.test; user = lena; password = #; encrypt = true'",
    "tool 'jdbc:sqlserver://db.test;user=lena;password=a # b;encrypt=true'",
    "tool 'jdbc:sqlserver://db.test;password={#;#};user=lena'",
    "tool 'jdbc:sqlserver://db.test;password={a }} # #};user=lena'",
    "tool 'jdbc:sqlserver://db.test;user=lena;password=p@#'",
    "tool 'jdbc:sqlserver://db.test;accessToken=#' 'jdbc:sqlserver://db.test;trustStorePassword=#;x=1'",
    "tool 'jdbc:sqlserver://[::1]:1433;user=lena;password=#'",
    "env 'DB_URL=jdbc:sqlserver://db.test;user=lena;password=#' tool",
    "docker run -e 'SPRING_DATASOURCE_URL=jdbc:sqlserver://db.test;password=#' bay/tide",
    "java '-Dspring.datasource.url=jdbc:jtds:sqlserver://db.test/shop;user=lena;password=#' -jar m.jar",
    "tool 'JDBC:SQLServer://db.test;User=lena;PassWord=#'",
    "tool 'jdbc:db2://db.test:50000/shop:user=lena;password=#;'",
    "tool 'jdbc:db2://db.test:50000/shop:password=#;user=lena;'",
    "tool 'jdbc:as400://db.test;naming=sql;user=lena;password=#'",
    "tool 'jdbc:h2:tcp://db.test/~/shop;USER=lena;PASSWORD=# #'",
    "tool 'jdbc:informix-sqli://db.test:9088/shop:INFORMIXSERVER=x;user=lena;password=#'",
    "tool 'jdbc:hive2://db.test:10000/default;ssl=true;trustStorePassword=#;principal=x'",
    "tool 'jdbc:databricks://a.test:443;httpPath=/sql/1;AuthMech=3;UID=token;PWD=#'",
    "tool 'jdbc:teradata://db.test/USER=lena,PASSWORD=#'",
    "tool 'jdbc:mysql://(host=db.test,user=lena,password=#)/shop'",
    "tool 'jdbc:mysql://address=(host=db.test)(user=lena)(password=#)/shop'",
    "tool 'jdbc:mysql://db.test/shop?user=lena&password=#'",
    "tool 'jdbc:postgresql://lena:#@db.test/shop?ssl=true' 'jdbc:mysql://lena:a/#@db.test/shop'",
    "tool 'jdbc:postgresql://lena:a=#@db.test/shop'",
    "tool 'jdbc:sybase:Tds:db.test:5000/shop?USER=lena&PASSWORD=#'",
    "tool 'sqlserver://db.test;user id=lena;password=#'",
    "tool '//db.test;user=lena;password=#'",
    "tool 'db.test;uid=lena;pwd=#'",
    "tool 'Server=tcp:db.test,1433;User ID=lena;Pwd=#;Encrypt=True'",
    "tool 'Driver={ODBC Driver 18 for SQL Server};Server=db.test;UID=lena;PWD={# #}'",
    "tool 'Endpoint=sb://a.test/;SharedAccessKeyName=x;SharedAccessKey=#'",
    "tool 'DefaultEndpointsProtocol=https;AccountName=a;AccountKey=#==;EndpointSuffix=core.test'",
    "tool '{\"url\":\"jdbc:sqlserver://db.test;user=lena;password=#\",\"x\":1}'",
    "sh -c \"java -jar m.jar 'jdbc:sqlserver://db.test;user=lena;password=# #'\"",
    "sh -c 'DB_URL=\"jdbc:sqlserver://db.test;user=lena;password=#\" exec tool'",
    "tool jdbc:sqlserver://db.test\\;user=lena\\;password=#",
];

/// Command lines that have no secret.
const HONEST: &[&str] = &[
    "tool 'jdbc:sqlserver://db.test:1433;databaseName=shop;user=lena;integratedSecurity=true;encrypt=true'",
    "tool 'jdbc:db2://db.test:50000/shop:user=lena;currentSchema=x;'",
    "tool 'jdbc:postgresql://db.test:5432/shop?user=lena&ssl=true'",
    "tool 'jdbc:sqlserver://db.test;password=${DB_PASSWORD};user=lena'",
    "tool 'https://a.test/x;version=1;lang=en/y?a=1'",
    "tool 'Server=db.test;Database=shop;Trusted_Connection=True'",
];

#[test]
fn secrets_of_databases_are_redacted() {
    let mut wrong = Vec::new();
    for line in SECRETS {
        let argv = argv(&line.replace('#', SECRET));
        let shown = redact_argv(&argv).join(" ");
        if shown.contains(SECRET) || !shown.contains("***") {
            wrong.push(format!("{line}: {shown}"));
        }
        let is_there = |word: &&str| !line.contains(*word) || shown.contains(*word);
        if !["db.test", "shop", "m.jar"].iter().take(1).all(is_there) {
            wrong.push(format!("{line}: nothing is left: {shown}"));
        }
    }
    for line in HONEST {
        let shown = redact_argv(&argv(line));
        if shown != argv(line) {
            wrong.push(format!("{line}: {shown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), SECRETS.len() + HONEST.len());
}

/// Other members of a connection string stay.
#[test]
fn rest_of_a_connection_string_is_shown() {
    let cases = [
        (
            "jdbc:sqlserver://db.test;user=lena;password=a b;encrypt=true",
            "jdbc:sqlserver://db.test;user=lena;password=***;encrypt=true",
        ),
        (
            "jdbc:sqlserver://db.test;password={a;b}};c};user=lena",
            "jdbc:sqlserver://db.test;password=***;user=lena",
        ),
        (
            "jdbc:jtds:sqlserver://db.test:1433/shop;pwd=a;user=lena",
            "jdbc:jtds:sqlserver://db.test:1433/shop;pwd=***;user=lena",
        ),
        (
            "jdbc:mysql://lena:a@db.test/shop?password=b&ssl=true",
            "jdbc:mysql://lena:***@db.test/shop?password=***&ssl=true",
        ),
    ];
    for (word, expected) in cases {
        assert_eq!(redact_argv(&["tool".to_owned(), word.to_owned()])[1], expected);
    }
}
