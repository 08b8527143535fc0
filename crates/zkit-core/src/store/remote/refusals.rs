//! What a server's refusal means for people: read from the codes in the bodies of its answers.
//!
//! Codes: <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>, which Google's XML API shares, and
//! <https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes>.

use object_store::Error as Cause;

/// What the servers call a bucket or container that does not exist.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];

/// How `http` says which region a bucket is in.
const IN_REGION: &str = "the bucket is in the region ";

/// Returns whether an object is absent. One of a bucket that does not exist is not: nobody knows what it would hold.
pub(super) fn is_absent(error: &Cause) -> bool {
    matches!(error, Cause::NotFound { .. }) && !is_bucket_missing(&error.to_string())
}

fn is_bucket_missing(text: &str) -> bool {
    NO_BUCKET.iter().any(|code| text.contains(code))
}

/// Returns what can be done about a refusal, where its code says more than its status does.
pub(super) fn hint(text: &str) -> Option<String> {
    let has = |codes: &[&str]| codes.iter().any(|code| text.contains(code));
    if is_bucket_missing(text) {
        return Some("check the name of the bucket: it does not exist".to_owned());
    }
    if has(&[
        "ExpiredToken",
        "TokenRefreshRequired",
        "token has expired",
        "Signature not valid in the specified time frame",
    ]) {
        return Some("the credentials have expired: get new ones".to_owned());
    }
    if has(&["RequestTimeTooSkewed"]) {
        return Some("set the clock of this machine: the server's differs from it".to_owned());
    }
    if has(&[
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "incorrectly configured region",
        "IllegalLocationConstraint",
        IN_REGION,
    ]) {
        let region = element(text, "Region").or_else(|| named_region(text)).unwrap_or("REGION");
        return Some(format!(
            "the bucket is in another region: name it, with AWS_REGION or --storage-option region={region}"
        ));
    }
    if has(&["ignores ranges", "Range request not supported"]) {
        return Some(
            "this server sends whole objects where parts are asked for: copy the store to this machine first, or read it from a server that knows ranges"
                .to_owned(),
        );
    }
    if has(&["answers HEAD with"]) {
        return Some("let the server answer HEAD, or copy the store to this machine first".to_owned());
    }
    if has(&["requester pays", "RequesterPays", "UserProjectMissing"]) {
        return Some("who reads this bucket pays: pass --storage-option request_payer=true".to_owned());
    }
    if has(&["169.254.169.254", "169.254.170.2", "metadata.google.internal", "computeMetadata"]) {
        return Some(
            "no credentials were found: set those of the cloud's own tools, or pass --anonymous for a public bucket"
                .to_owned(),
        );
    }
    None
}

/// Returns the text of an XML element that holds a short plain word.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    let (word, _) = after.split_once(&format!("</{name}>"))?;
    is_plain(word).then_some(word)
}

/// Returns the region that the header of an answer named.
fn named_region(text: &str) -> Option<&str> {
    let (_, after) = text.split_once(IN_REGION)?;
    let word = after.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?;
    is_plain(word).then_some(word)
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.len() <= 64 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(body: &str) -> Cause {
        Cause::NotFound { path: "a/b".to_owned(), source: body.to_owned().into() }
    }

    #[test]
    fn an_object_of_a_missing_bucket_is_not_absent() {
        assert!(is_absent(&not_found("<Error><Code>NoSuchKey</Code></Error>")));
        assert!(is_absent(&not_found("")));
        assert!(!is_absent(&not_found("<Error><Code>NoSuchBucket</Code></Error>")));
        assert!(!is_absent(&not_found("<Error><Code>ContainerNotFound</Code></Error>")));
        assert!(!is_absent(&Cause::NotImplemented {
            operation: "x".to_owned(),
            implementer: "y".to_owned()
        }));
    }

    #[test]
    fn the_region_is_named_where_the_server_says_it_and_never_quoted_otherwise() {
        let body =
            |region: &str| format!("<Code>AuthorizationHeaderMalformed</Code><Region>{region}</Region>");
        assert!(hint(&body("eu-central-1")).unwrap().ends_with("region=eu-central-1"));
        assert!(hint(&body("\u{1b}[31m")).unwrap().ends_with("region=REGION"));
        assert!(hint("in the region eu-west-3").is_none());
        let header = |region: &str| hint(&format!("Error: the bucket is in the region {region}")).unwrap();
        assert!(header("eu-west-3").ends_with("region=eu-west-3"));
        assert!(header("\u{1b}[31m").ends_with("region=REGION"));
        assert!(hint("<Code>PermanentRedirect</Code>").unwrap().contains("another region"));
    }

    #[test]
    fn each_code_has_its_own_advice() {
        assert!(hint("<Code>ExpiredToken</Code>").unwrap().contains("expired"));
        assert!(hint("<Code>RequestTimeTooSkewed</Code>").unwrap().contains("clock"));
        assert!(hint("Bucket is a requester pays bucket").unwrap().contains("request_payer"));
        assert!(hint("<Code>NoSuchBucket</Code>").unwrap().contains("name of the bucket"));
        assert_eq!(hint("<Code>AccessDenied</Code>"), None);
    }
}
