//! Command lines: every row of the kept lists, and tables of what is a secret and what is none.

use super::super::names::{At, NAMES, PUBLIC};
use super::super::options::rules as option_rules;
use super::super::tokens::TOKENS;
use super::super::values::REFERENCES;
use super::*;

/// A secret that no form and no name tells, in no scanner's list.
const SECRET: &str = "Qu1ttenmus";

fn argv(line: &str) -> Vec<String> {
    let (words, _) = crate::redact::shell::commands(line);
    words.into_iter().flatten().map(|word| word.text).collect()
}

fn shown(line: &str) -> String {
    redact_argv(&argv(line)).join(" ")
}

/// Rows of a list, each with its columns.
fn rows(list: &str) -> Vec<Vec<&str>> {
    let rows = list.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').collect()).collect()
}

#[test]
fn kept_lists_have_sources() {
    for (list, read, columns, source) in [
        (include_str!("../names.tsv"), NAMES.len(), 3, 2),
        (include_str!("../tokens.tsv"), TOKENS.len(), 3, 2),
        (include_str!("../options.tsv"), option_rules(), 5, 3),
        (include_str!("../references.tsv"), REFERENCES.len(), 5, 3),
    ] {
        let rows = rows(list);
        assert_eq!(rows.len(), read, "a line that is no row");
        for row in rows {
            assert!(row.len() == columns && row[source].len() > 2, "{row:?}");
        }
    }
    let phrases = rows(include_str!("../public.tsv"));
    assert!(phrases.iter().all(|row| row.len() == 2 && row[1].len() > 2), "{phrases:?}");
}

#[test]
fn value_behind_each_public_name_is_shown() {
    for phrase in PUBLIC.iter() {
        let name = phrase.join("-");
        for line in [format!("s --{name} tide"), format!("s --my-{name}=tide"), format!("s {name}_OLD=tide")]
        {
            assert_eq!(shown(&line), line);
        }
    }
}

#[test]
fn value_behind_each_secret_name_is_redacted() {
    for row in NAMES.iter() {
        for word in &row.words {
            let lines = match row.at {
                At::Parameter => vec![format!("s 'https://a.test/x?{word}={SECRET}&b=1'")],
                _ => vec![
                    format!("s --{word} {SECRET}"),
                    format!("s --my-{word}={SECRET}"),
                    format!("s X_{}={SECRET}", word.to_uppercase()),
                    format!("s '{{\"{word}\":\"{SECRET}\",\"x\":1}}'"),
                    format!("s 'x-{word}: {SECRET}'"),
                    format!("sh -c 'true; s --{word} {SECRET}'"),
                    format!("s 'https://a.test/x?a=1&{word}={SECRET}'"),
                ],
            };
            for line in lines {
                assert!(!shown(&line).contains(SECRET), "{line}: {}", shown(&line));
            }
        }
    }
}

#[test]
fn each_token_form_is_redacted() {
    for token in TOKENS.iter() {
        // Put together here, so that no scanner takes this file for a leak.
        let body: String = "Fa7Ke".chars().cycle().take(token.least.max(8)).collect();
        let secret = [token.prefix, &body].concat();
        let address = format!("s https://a.test/x/{secret}/y");
        let is_path = !token.prefix.contains('/');
        for line in
            [format!("s {secret}"), format!("s --x={secret}")].into_iter().chain(is_path.then_some(address))
        {
            assert!(!shown(&line).contains(&body), "{line}: {}", shown(&line));
        }
        let name = [token.prefix, "name"].concat();
        if token.least > 0 && name.len() < 20 {
            assert_eq!(shown(&format!("s {name}")), format!("s {name}"));
        }
    }
}

#[test]
fn secret_of_each_option_rule_is_redacted() {
    for row in rows(include_str!("../options.tsv")) {
        let example = row[4];
        assert!(example.contains('#'), "{row:?}");
        let line = example.replace('#', SECRET);
        let words = argv(&line);
        for (line, kept) in [(words.clone(), redact_argv(&words)), {
            let line = vec!["sh".to_owned(), "-c".to_owned(), line];
            (line.clone(), redact_argv(&line))
        }] {
            assert!(!kept.join(" ").contains(SECRET), "{line:?}: {kept:?}");
        }
        // Nothing else is missing.
        let kept = redact_argv(&words);
        for (word, kept) in words.iter().zip(&kept).filter(|(word, _)| !word.contains(SECRET)) {
            assert_eq!(word, kept, "{example}");
        }
    }
}

#[test]
fn each_reference_is_kept() {
    for row in rows(include_str!("../references.tsv")) {
        let (beginning, example) = (row[0], row[4]);
        let words =
            ["s", "--token", example, &format!("--token={example}"), &format!("{{\"token\":\"{example}\"}}")]
                .map(str::to_owned);
        assert_eq!(redact_argv(&words), words);
        let secret = format!("{beginning}{SECRET}!");
        assert_eq!(redact_argv(&["s".to_owned(), "--token".to_owned(), secret])[2], "***", "{beginning}");
    }
}

/// Command lines, with `#` in place of each secret, and what is shown in place of each.
#[test]
fn secrets_of_all_places_are_redacted() {
    let mut wrong = Vec::new();
    for line in [
        "curl --user=lena:# https://a.test",
        "curl -ulena:# https://a.test",
        "tool -uu:#",
        "skopeo copy --src-creds=lena:# --dest-creds lena:# docker://a docker://b",
        "tool --pw # --pin=# --otp # --psk # --sas # --signature # --mnemonic '# # fake #'",
        "sh -c 'curl -u lena:# https://a.test | jq .'",
        "sh -c 'cd /srv && mysql -ulena -p# shop'",
        "sh -c \"bash -lc 'curl -u lena:# https://a.test'\"",
        "ssh box 'mysql -u lena -p# shop'",
        "sh -c 'mysql --password=\"# #\" shop'",
        "tool lena:#@box.test:22",
        "tool --dsn lena:#@tcp(127.0.0.1:3306)/shop",
        "tool db=lena:#@db/shop",
        "tool jdbc:oracle:thin:scott/#@db.test:1521",
        "tool 'https://a.test/f?sv=2024-01-01&sig=#'",
        "tool 'https://a.test/cb?code=#&state=#'",
        "tool 'https://a.test/f?X-Amz-Signature=#&X-Amz-Expires=900'",
        "tool https://hooks.slack.com/services/T0FAKE/B0FAKE/#",
        "tool https://discord.com/api/webhooks/1/#",
        "tool 'https://chat.googleapis.com/v1/spaces/A/messages?key=#&token=#'",
        "tool https://a.test/hooks/#",
        "ffmpeg -i a -f flv rtmp://a.test/live2/#",
        "tool --key '-----BEGIN RSA PRIVATE KEY-----\n#\n#\n-----END RSA PRIVATE KEY-----'",
        "tool '-----BEGIN OPENSSH PRIVATE KEY----- # # -----END OPENSSH PRIVATE KEY----- x'",
        "tool 'x -----BEGIN PRIVATE KEY----- # #'",
        "npm config set //registry.npmjs.org/:_authToken #",
        "aws configure set aws_secret_access_key #",
        "nmcli dev wifi connect net password #",
        "sh -c 'echo # | docker login -u lena --password-stdin'",
        "bash -c 'sudo -S ls <<< #'",
        "sh -c 'exec server --token $(echo #)'",
        "sh -c 'exec server --token=$(printf %s #) --stdio'",
        "bash -lc 'API_KEY=$(echo -n #) exec server'",
        "sh -c 'server --password `echo #`'",
        "sh -c 'server --password \"$(echo #)\"'",
        "docker build --secret id=npm,value=# .",
        "mysql -e \"ALTER USER lena IDENTIFIED BY '#'\"",
        "psql -c \"ALTER USER lena PASSWORD '#'\"",
        "redis-cli CONFIG SET requirepass #",
        "tool /password:#",
        "tool 'code=#&state=#'",
        "kubectl create secret generic a --from-literal=value=#",
        "docker run -e DB_PW=# img",
        "docker exec db mysql -p# shop",
        "tool '{\"db\":{\"user\":\"a\",\"pw\":\"#\"}}'",
        "プログラム --パスワード #",
        "プログラム パスワード:#",
        "プログラム パスワード：#",
        "程序 --密碼=# 密码＝#",
        "программа --пароль # ТОКЕН=#",
        "programm --zugangsschluessel # --Schlüssel=#",
        "logiciel --mot-de-passe # --clé #",
        "programa --contraseña=# --CONTRASEÑA #",
        "tool --pass\u{200b}word #",
        "tool --PassWord2 #",
        "python3 -c \"import os; os.environ['TIDE_TOKEN']='#'; import tide\"",
        "python3 -c \"os.environ['TIDE_TOKEN'] = '#'\"",
        "python3 -c \"TIDE_TOKEN = '#'; run(TIDE_TOKEN)\"",
        "python3 -c \"os.putenv('TIDE_TOKEN', '#')\"",
        "python3 -c \"os.environ.setdefault('TIDE_TOKEN','#')\"",
        "python3 -c \"os.environ.update(TIDE_TOKEN='#', PORT='80')\"",
        "python3 -c \"os.environ.update({'TIDE_TOKEN': '#'})\"",
        "python3 -c 'os.environ[\"TIDE_TOKEN\"] = \"#\"'",
        "ruby -e 'ENV[\"TIDE_TOKEN\"] = \"#\"; load \"tide.rb\"'",
        "ruby -e 'ENV.store(\"TIDE_TOKEN\", \"#\")'",
        "perl -e '$ENV{TIDE_TOKEN} = \"#\"; do \"tide.pl\"'",
        "perl -e '$ENV{\"TIDE_TOKEN\"}=\"#\"'",
        "php -r '$_ENV[\"TIDE_TOKEN\"] = \"#\";'",
        "php -r 'putenv(\"TIDE_TOKEN=#\");'",
        "node -e 'process.env[\"TIDE_TOKEN\"] = \"#\"'",
        "node -e 'setenv(\"TIDE_TOKEN\" , `#`)'",
        "lua -e 'setenv(\"TIDE_TOKEN\", \"#\", 1)'",
        "Rscript -e 'Sys.setenv(TIDE_TOKEN = \"#\")'",
        "julia -e 'ENV[\"TIDE_TOKEN\"] = \"#\"'",
        "pwsh -Command \"[Environment]::SetEnvironmentVariable('TIDE_TOKEN', '#')\"",
        "sh -c \"exec python3 -c 'import os; os.environ[\\\"TIDE_TOKEN\\\"] = \\\"#\\\"'\"",
        "tool '<config><password>#</password></config>'",
        "tool '[{\"name\":\"TIDE_TOKEN\",\"value\":\"#\"}]'",
        "tool '<add key=\"ApiKey\" value=\"#\"/>'",
        "ruby -e 'ENV[\"TIDE_TOKEN\"] ||= \"#\"'",
        "ruby -e 'ENV.update(\"TIDE_TOKEN\" => \"#\")'",
        "jshell -R 'System.setProperty(\"tide.token\", \"#\")'",
        "tool Authorization: Token #",
        "tool --authorization 'ApiKey #'",
        "tool --auth oauth:# --password oauth#",
        "tool --token op:# --token vault:# --token arn:# --token 'op://# x'",
        "sshpass -v -p # ssh -p 2222 box tide-mcp",
        "env ARŞİV_PAROLASI=# KAYIT_ŞİFRESİ=# POSTA_SIFRESI=# tide-mcp",
        "tool --posta-parolası # --api-anahtarı # --arşiv-şifresi=# --bejelentkezes-jelszava #",
        "tool --kodeord # --adgangs-kodeord=# --zugangscode # --tor-zugriffscode=#",
        "env CLAVE_API=# KLUCZ_API=# TOKEN_API=# tide-mcp --cle-api #",
        "tool --clave-primaria-password # --primärschlüssel-passwort # --api-clave #",
        "bash -c 'read -r TIDE_TOKEN <<< \"#\"; tide-mcp'",
        "bash -c 'IFS= read -rs PW <<<#; tide-mcp'",
        "bash -c 'export DB_PASS=$(cat <<< \"#\"); tide-mcp'",
        "bash -c 'tide-mcp --token $(tr -d x <<< #)'",
        "bash -c 'read TIDE_TOKEN < <(echo #); tide-mcp'",
        "bash -c 'read TIDE_TOKEN <<EOF\n#\nEOF\ntide-mcp'",
        "sh -c 'printf \"%s\\n\" # | su -c tide-mcp'",
        "bash -c 'cat <<EOF | su -c tide-mcp\n#\nEOF'",
        "sh -c 'yes # | passwd lena; tide-mcp'",
        "sh -c 'echo # | sudo cryptsetup open /dev/sdb x; tide-mcp'",
        "sh -c 'export TIDE_TOKEN=\"$(echo #)\"; tide-mcp'",
        "sh -c 'export TIDE_TOKEN=\"$(curl -u lena:# https://a.test)\"; tide-mcp'",
        "sh -c 'export TIDE_TOKEN=\"$(cat <<< #)\"; tide-mcp'",
        "tool '{\"auth\":{\"user\":\"lena\",\"pass\":\"#\"},\"x\":1}'",
        "tool '{\"auth\":{\"a\":{\"b\":[\"#\",\"#\"]}}}'",
    ] {
        let line = line.replace('#', SECRET);
        let shown = shown(&line);
        if shown.contains(SECRET) || !shown.contains("***") {
            wrong.push(format!("{line}: {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn honest_command_lines_stay_readable() {
    let mut wrong = Vec::new();
    for line in [
        "llm --tokenizer bpe --max-output-tokens 4096 --token-window 8192 --seed 42",
        "git checkout 3f786850e387550fdab836ed7e6dc881de23001b",
        "editor --key-bindings vim --keyboard us --keys 88 --hotkey F2",
        "query --partition-key tenant --sort-key created_at --public-key k1",
        "server --key /etc/ssl/private/server.key --cert /etc/ssl/server.pem",
        "server --password-file /run/secrets/pw --token-url https://a.test/t --auth-type none",
        "server --token ${API_TOKEN} --password env:PW",
        "sh -c 'exec server --token \"$TOKEN\" --api-key ${API_KEY}'",
        "sh -c 'cd /srv && exec node dist/index.js --stdio'",
        "author-mcp --co-authors lena,ole --authority x",
        "ffmpeg -i in.mp4 -c:v libx264 -pass 1 -b:v 2M out.mp4",
        "ssh -p 2222 lena@box.test",
        "docker run --rm -p 8080:80 --name mongo -u node:node --user 65534:65534 mongo",
        "docker run postgres@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "mysql -p -u shop -P 3306 shop",
        "redis-cli -p 6379 PING",
        "sort -k 2 -t : /etc/group",
        "git clone git@github.com:acme/x.git",
        "npx -y npm:foo@latest npm:@acme/x@1.0 mailto:lena@a.test",
        "curl -o f.tgz 'https://a.test/f.tgz?version=1.2.3&format=tar&state=open'",
        "tool https://a.test/webhooks/github https://a.test/hooks/deploy",
        "grep -r password src",
        "passwd lena",
        "lint --error-code E501 --pinned true --pinout bcm --passive --compat 2",
        "kubectl get secret db-credentials -o name",
        "logiciel --mots-cles vin --jetons-max 200",
        "программа --клавиатура ru --ключевые-слова вино",
        "tool '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----'",
        "curl -b cookies.txt https://a.test",
        "docker build --secret id=npm,src=.npmrc --secret type=env,id=token,env=TOKEN .",
        "docker buildx build --secret id=aws .",
        "podman run --secret npm,type=env,target=TOKEN img",
        "docker service create --secret source=site.key,target=key.pem,mode=0400 nginx",
        "sh -c 'server --stdio; echo done'",
        "sh -c 'server --name $(echo notes)'",
        "ssh -p 2222 box tide-mcp -p 8080",
        "op run -- tide-mcp --session day",
        "poetry run tide-mcp -p 8080",
        "java -cp a.jar com.example.harbour.TideTableServerApplication3 Log4jBridge2ServerMain",
        "java OAuth2AuthorizationServerApplication Base64UrlSafeCodecMain weatherMcpServerApplication2",
        "tool --auth oauth --auth=oauth2 --auth=none --http-auth digest --proxy-auth ntlm --auth mtls x",
        "tool --auth bearer tide --auth basic noon --auth-type bearer tide",
        "tool AUTH=saml --auth apikey --auth API-Key --auth jwt --auth iam --auth token tide",
        "tool --token op://Private/tide/token --token=op://Private/tide/token TIDE_TOKEN=op://a/b/c",
        "tool --password 'op://Shared Vault/tide/password'",
        "tool --token vault:secret/data/tide#token --token bws://9f86d081-884c-4d65-9a2f-eaa0c55ad015",
        "tool --secret sm://harbour/tide --token secret://tide --token keyring:tide/token --token ref+vault://a/b#c",
        "tool --token arn:aws:secretsmanager:eu-west-1:123456789012:secret:tide-AbC1dE",
        "tool --token arn:aws:ssm:eu-west-1:123456789012:parameter/tide/token",
        "tool --token projects/harbour/secrets/tide/versions/latest",
        "tool --token '${{ secrets.TIDE_TOKEN }}' --token ${input:tide-token} --token ${env:TIDE_TOKEN}",
        "python3 -c \"print(os.environ['TIDE_TOKEN'], os.getenv('TIDE_TOKEN', ''))\"",
        "tool --columns '[\"user\",\"password\",\"email\"]'",
        "tool --primärschlüssel id --kunden-fremdschlüssel id --clave-ajena id --clé-étrangère id --chiave-esterna id",
        "tool --chave-primaria id --klucz-obcy id --внешний-ключ id --主キー id --外部キー=id --foreign-key id",
        "tool --birincil-anahtar id --anahtar-kelime vino --seo-kata-kunci vino --öffentlicher-schlüssel k1",
        "llm --tokens-per-second 40 --context-tokens 128k --tokens 4096 --cookies disabled --token-header X-Tide",
        "tool --secret-store vault --password-policy strict --api-key-header X-Key --pincode-api https://a.test/x",
        "tool '{\"auth\":{\"type\":\"none\"},\"user\":\"lena\"}'",
        "tool '{\"type\":\"object\",\"properties\":{\"password\":{\"type\":\"string\",\"minLength\":8}},\"x\":[1]}'",
        "tool --clave-de-ordenación id '{\"secrets\":{\"source\":\"vault\"},\"x\":1}'",
        "tool '{\"apiKey\":{\"env\":\"TIDE_KEY\"},\"port\":80}'",
        "sh -c 'curl -u \"$TIDE_USER:$TIDE_PASS\" https://a.test'",
        "sh -c 'export TIDE_TOKEN=\"$(pass show tide/day)\"; tide-mcp'",
        "sh -c 'read -rs TIDE_TOKEN; export TIDE_TOKEN; tide-mcp'",
        "bash -c 'read -r LINE <<< \"noon tide\"; tide-mcp'",
        "bash -c 'cat <<EOF\nhigh tide\nEOF\n'",
    ] {
        if redact_argv(&argv(line)) != argv(line) {
            wrong.push(format!("{line}: {}", shown(line)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A word that is long, or a line of many words, takes no longer than one that is kept.
#[test]
fn long_shell_lines_are_cut_off() {
    let line = format!("{} curl -u lena:{SECRET}", "a ".repeat(500_000));
    let kept = redact_argv(&["sh".to_owned(), "-c".to_owned(), line]);
    assert!(kept[2].len() <= 1_024 + 3 && !kept[2].contains(SECRET));
    let nested = (0..6).fold(format!("curl -u lena:{SECRET}"), |inner, _| {
        format!("sh -c '{}'", inner.replace('\'', "'\\''"))
    });
    assert!(redact_argv(&[nested])[0].len() <= 1_024 + 3);
}
