//! Clients that check each address they connect to, and each redirect; see [`Hosts`].

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector as _, HttpError, HttpErrorKind, ReqwestConnector,
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;

use crate::store::hosts::{Hosts, Refused};

/// Returns a client that speaks with `hosts` alone.
pub(super) fn client(
    options: &ClientOptions,
    hosts: &Hosts,
    connect_timeout: Duration,
) -> object_store::Result<HttpClient> {
    if matches!(hosts, Hosts::Named) {
        return ReqwestConnector::default().connect(options);
    }
    let client = builder(options, hosts, connect_timeout, look_up).and_then(reqwest::ClientBuilder::build);
    let client =
        client.map_err(|error| object_store::Error::Generic { store: "HTTP", source: error.into() })?;
    Ok(HttpClient::new(client))
}

fn builder(
    options: &ClientOptions,
    hosts: &Hosts,
    connect_timeout: Duration,
    look_up: LookUp,
) -> reqwest::Result<reqwest::ClientBuilder> {
    let setting = |key: ClientConfigKey| options.get_config_value(&key);
    let is_set = |key: ClientConfigKey| setting(key).is_some_and(|value| value == "true");
    let followed = hosts.clone();
    let redirects =
        Policy::custom(move |attempt| match followed.check_redirect(attempt.previous(), attempt.url()) {
            Ok(()) => attempt.follow(),
            Err(refused) => attempt.error(refused),
        });
    let mut builder = reqwest::Client::builder()
        .user_agent(setting(ClientConfigKey::UserAgent).unwrap_or_else(|| USER_AGENT.to_owned()))
        .connect_timeout(connect_timeout)
        .https_only(!is_set(ClientConfigKey::AllowHttp))
        .danger_accept_invalid_certs(is_set(ClientConfigKey::AllowInvalidCertificates))
        .redirect(redirects)
        .dns_resolver(Resolver { hosts: hosts.clone(), look_up });
    if is_set(ClientConfigKey::Http1Only) {
        builder = builder.http1_only();
    }
    // a proxy connects by itself: nobody could check to where
    if matches!(hosts, Hosts::Public) {
        return Ok(builder.no_proxy());
    }
    if let Some(proxy) = setting(ClientConfigKey::ProxyUrl) {
        let excluded = setting(ClientConfigKey::ProxyExcludes).unwrap_or_default();
        let proxy = reqwest::Proxy::all(proxy)?.no_proxy(reqwest::NoProxy::from_string(&excluded));
        builder = builder.proxy(proxy);
    }
    if let Some(certificate) = setting(ClientConfigKey::ProxyCaCertificate) {
        let certificate = reqwest::tls::Certificate::from_pem(certificate.as_bytes())?;
        builder = builder.tls_certs_merge([certificate]);
    }
    Ok(builder)
}

const USER_AGENT: &str = concat!("zkit/", env!("CARGO_PKG_VERSION"));

/// Returns the addresses of a name; blocks.
type LookUp = fn(&str) -> io::Result<Vec<IpAddr>>;

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// Resolves names, and gives only addresses that may be connected to: those that it gives are those that are connected to.
struct Resolver {
    hosts: Hosts,
    look_up: LookUp,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (hosts, look_up) = (self.hosts.clone(), self.look_up);
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let looked_up = name.clone();
            let addresses = tokio::task::spawn_blocking(move || look_up(&looked_up)).await??;
            for address in &addresses {
                hosts.check_address(&name, *address)?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// Checks the address of a request, where it holds one.
pub(super) fn check(hosts: &Hosts, uri: &http::Uri) -> Result<(), HttpError> {
    if matches!(hosts, Hosts::Named) {
        return Ok(());
    }
    let url =
        url::Url::parse(&uri.to_string()).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
    hosts.check_url(&url).map_err(refusal)
}

/// Returns an error as it is, or what was refused if that is its cause: asking again would not help.
pub(super) fn explained(error: HttpError) -> HttpError {
    match refused(&error) {
        Some(refused) => refusal(refused.clone()),
        None => error,
    }
}

fn refusal(refused: Refused) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, refused)
}

/// Returns what was refused, if that is what an error comes from.
pub(super) fn refused<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Refused> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::location::StoreUrl;
    use crate::store::hosts::RemotePlace;

    /// A web server on this machine; `/to?URL` redirects. Returns its port, and the paths that it is asked for.
    fn server() -> (u16, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, paths) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                let path = first.split(' ').nth(1).unwrap().to_owned();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let answer = match path.split_once("/to?") {
                    Some((_, url)) => {
                        format!("HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n")
                    }
                    None => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n".to_owned(),
                };
                if asked.send(path).is_err() {
                    return;
                }
                stream.write_all(format!("{answer}Connection: close\r\n\r\n").as_bytes()).unwrap();
            }
        });
        (port, paths)
    }

    /// Names of tests, and nothing else.
    fn names(name: &str) -> io::Result<Vec<IpAddr>> {
        let addresses: &[&str] = match name {
            "here.test" => &["127.0.0.1"],
            "private.test" => &["10.1.2.3"],
            "metadata.test" => &["169.254.169.254"],
            "both.test" => &["93.184.216.34", "127.0.0.1"],
            "mapped.test" => &["::ffff:127.0.0.1"],
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }

    /// What asking for a URL gives: a status, or why it was refused.
    fn ask(hosts: &Hosts, url: &str) -> Result<u16, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = ClientOptions::new().with_allow_http(true);
        let client = builder(&options, hosts, Duration::from_secs(5), names).unwrap().build().unwrap();
        let client = HttpClient::new(client);
        let request = http::Request::get(url).body(bytes::Bytes::new().into()).unwrap();
        let asked = check(hosts, request.uri())
            .and_then(|()| runtime.block_on(client.execute(request)).map_err(explained));
        match asked {
            Ok(answer) => Ok(answer.status().as_u16()),
            Err(error) => Err(refused(&error).map_or_else(|| "not asked".to_owned(), ToString::to_string)),
        }
    }

    fn allowed(prefix: &str) -> Hosts {
        let prefix: StoreUrl = prefix.parse().unwrap();
        Hosts::Allowed(RemotePlace::of(&prefix).into_iter().collect())
    }

    #[test]
    fn no_request_reaches_a_neighbour_by_its_name() {
        let (port, paths) = server();
        for (name, address) in [
            ("here.test", "127.0.0.1 is a loopback address"),
            ("private.test", "10.1.2.3 is a private address"),
            ("metadata.test", "169.254.169.254 is a link-local address"),
            ("both.test", "127.0.0.1 is a loopback address"),
            ("mapped.test", "::ffff:127.0.0.1 is an IPv4-mapped address"),
            ("127.0.0.1", "127.0.0.1 is a loopback address"),
        ] {
            let asked = ask(&Hosts::Public, &format!("http://{name}:{port}/x"));
            assert_eq!(asked, Err(format!("references do not lead to `{name}`: {address}")));
        }
        assert_eq!(ask(&Hosts::Public, "http://nowhere.test/x"), Err("not asked".to_owned()));
        assert!(paths.try_recv().is_err());
    }

    #[test]
    fn a_host_that_the_user_named_is_asked_and_leads_nowhere_else() {
        let (port, paths) = server();
        let (elsewhere, others) = server();
        let hosts = allowed(&format!("http://here.test:{port}/data"));
        let to = |url: &str| ask(&hosts, &format!("http://here.test:{port}/data/to?{url}"));
        assert_eq!(ask(&hosts, &format!("http://here.test:{port}/data/x")), Ok(200));
        assert_eq!(to(&format!("http://here.test:{port}/data/y")), Ok(200));
        let refusal = |to: String| {
            Err(format!("`here.test:{port}` redirects to `{to}`, and no --allow-prefix covers that"))
        };
        assert_eq!(
            to(&format!("http://here.test:{elsewhere}/data/y")),
            refusal(format!("here.test:{elsewhere}"))
        );
        assert_eq!(to(&format!("http://here.test:{port}/other")), refusal(format!("here.test:{port}")));
        assert_eq!(to("http://private.test/y"), refusal("private.test".to_owned()));
        assert_eq!(
            ask(&hosts, "http://metadata.test/x").unwrap_err().split(':').next().unwrap(),
            "references do not lead to `metadata.test`"
        );
        assert_eq!(paths.try_iter().filter(|path| path == "/data/y").count(), 1);
        assert!(others.try_recv().is_err());
    }
}
