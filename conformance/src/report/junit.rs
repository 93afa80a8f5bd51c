//! The report that build servers read.

use super::faults;
use crate::judgement::Verdict;
use crate::run::Results;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// A suite for each language, a test for each case. A gap is a skipped test.
///
/// # Errors
///
/// Says why the document cannot be written.
pub fn junit(results: &Results) -> Result<String, String> {
    let mut report = Report::new(format!("conformance on {}", results.server));
    let faults = faults(results);
    for (at, language) in results.languages.iter().enumerate() {
        let mut suite = TestSuite::new(language.as_str());
        for row in &results.rows {
            let sentence = faults
                .iter()
                .find(|fault| fault.case == row.name && fault.language == language)
                .map(|fault| fault.sentence.as_str())
                .unwrap_or_default();
            let mut status = match row.verdicts[at] {
                Verdict::Pass => TestCaseStatus::success(),
                Verdict::Fail(_) => TestCaseStatus::non_success(NonSuccessKind::Failure),
                Verdict::Gap(_) => TestCaseStatus::skipped(),
            };
            if !sentence.is_empty() {
                status.set_message(sentence).set_description(row.why.as_str());
            }
            let mut case = TestCase::new(row.name.as_str(), status);
            case.set_classname(format!("{}.{language}", results.server));
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|error| error.to_string())
}
