//! What the names of dimensions say.

/// Returns whether a dimension is called like time, along which a writer goes on.
pub(crate) fn is_of_time(name: &str) -> bool {
    let name = name.to_lowercase();
    let words = name.split(['_', '-', '.']);
    words.into_iter().any(|word| matches!(word, "time" | "times" | "date" | "datetime" | "timestamp"))
}

/// Returns whether a dimension is called like the lead times of forecasts.
pub(crate) fn is_of_lead_time(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "step",
        "leadtime",
        "forecast_hour",
        "fhour",
        "forecast_period",
        "forecast_step",
        "prediction_timedelta",
    ];
    let name = name.to_lowercase();
    NAMES.contains(&name.as_str()) || name == "lead" || name.starts_with("lead_")
}

/// Returns whether a dimension is one of space, along which land or sea is absent on purpose.
pub(crate) fn is_spatial(name: &str) -> bool {
    const NAMES: [&str; 18] = [
        "lat",
        "latitude",
        "lon",
        "longitude",
        "x",
        "y",
        "z",
        "xc",
        "yc",
        "easting",
        "northing",
        "row",
        "col",
        "cell",
        "ncells",
        "node",
        "nj",
        "ni",
    ];
    let name = name.to_lowercase();
    NAMES.contains(&name.as_str()) || name.starts_with("lat_") || name.starts_with("lon_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_by_their_words() {
        assert!(["time", "Time", "valid_time", "date"].iter().all(|name| is_of_time(name)));
        assert!(!["runtime", "t", "timeless", "update"].iter().any(|name| is_of_time(name)));
        assert!(["step", "lead_time", "prediction_timedelta"].iter().all(|name| is_of_lead_time(name)));
        assert!(!["time", "leader", "steps_taken"].iter().any(|name| is_of_lead_time(name)));
        assert!(["lat", "Longitude", "lon_bnds", "x"].iter().all(|name| is_spatial(name)));
        assert!(!["time", "level", "latent"].iter().any(|name| is_spatial(name)));
    }
}
