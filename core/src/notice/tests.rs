//! Notices that wait: once each, bounded, and repeated troubles told in time.

use super::*;

#[test]
fn what_does_not_fit_is_counted() {
    let mut waiting = Waiting::default();
    for entry in 0..KEPT as u64 + 3 {
        waiting.push(Notice::of_entry(NoticeKind::Lost, EntryId::new(entry, 0), "gone"), Instant::now());
    }
    let missed = waiting.take().flatten().unwrap();
    assert_eq!((missed.kind(), &missed.message()[..2]), (NoticeKind::Missed, "3 "));
    assert_eq!(waiting.take().flatten().unwrap().entry_id(), Some(EntryId::new(3, 0)));
    assert_eq!(std::iter::from_fn(|| waiting.take()).count(), KEPT - 1);
}

#[test]
fn what_waits_at_the_end_is_given_first() {
    let mut waiting = Waiting::default();
    assert!(!waiting.is_ready() && waiting.take().is_none());
    let notice = Notice::new(NoticeKind::Reconnected, "again");
    waiting.push(notice.clone(), Instant::now());
    waiting.ended = true;
    assert!(waiting.is_ready());
    assert_eq!(waiting.take(), Some(Some(notice)));
    assert!(waiting.is_ready());
    assert_eq!(waiting.take(), Some(None));
}

#[test]
fn the_same_trouble_is_told_of_once_a_second_and_pushes_nothing_out() {
    let (mut waiting, begin) = (Waiting::default(), Instant::now());
    waiting.push(Notice::new(NoticeKind::GroupRecreated, "first"), begin);
    // Each 41 ms for two minutes, as a server that refuses a user does.
    for step in 0..3_000_u32 {
        waiting.push(trouble(Code::Auth), begin + step * Duration::from_millis(41));
    }
    waiting.push(trouble(Code::OutOfMemory), begin + Duration::from_secs(123));
    waiting.push(trouble(Code::Auth), begin + Duration::from_secs(200));
    let told: Vec<Notice> = waiting.notices.drain(..).collect();
    assert_eq!(told[0].kind(), NoticeKind::GroupRecreated);
    assert!(told.len() < 130, "{} notices", told.len());
    assert_eq!(told.iter().filter(|notice| notice.code() == Some(Code::OutOfMemory)).count(), 1);
    let of_user = told.iter().filter(|notice| notice.code() == Some(Code::Auth));
    assert_eq!(
        of_user.map(Notice::times).sum::<u64>()
            + waiting.troubles.iter().map(|(.., times)| times).sum::<u64>(),
        3_001
    );
}

fn trouble(code: Code) -> Notice {
    Notice::of_error(NoticeKind::Trouble, &Error::new(code, "again"))
}

/// Posts five troubles of one code and one of another within 300 ms.
async fn post_troubles(board: &Board) {
    for _ in 0..5 {
        board.post(trouble(Code::Auth));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    board.post(trouble(Code::OutOfMemory));
}

#[track_caller]
fn told(notice: Option<Notice>) -> (Option<Code>, u64) {
    let notice = notice.unwrap();
    (notice.code(), notice.times())
}

const BOUND: Duration = Duration::from_secs(3);

/// The next one; a wait that ends by its time looks once more, so it counts as one that found nothing.
async fn soon(notices: &Notices) -> (Option<Code>, u64) {
    let began = Instant::now();
    let next = tokio::time::timeout(BOUND, notices.next()).await.unwrap();
    assert!(began.elapsed() < BOUND, "nobody was woken");
    told(next)
}

#[tokio::test]
async fn what_came_again_is_told_of_though_nothing_follows() {
    let board = Board::of_driven();
    let notices = board.notices();
    for _ in 0..2 {
        post_troubles(&board).await;
        assert_eq!(soon(&notices).await, (Some(Code::Auth), 1));
        assert_eq!(soon(&notices).await, (Some(Code::OutOfMemory), 1));
        assert_eq!(soon(&notices).await, (Some(Code::Auth), 4));
        // Then it is quiet for more than a second, and what comes is told of at once again.
        assert!(tokio::time::timeout(TROUBLE + TROUBLE / 10, notices.next()).await.is_err());
    }
}

/// However one waits, also without a runtime.
#[tokio::test]
async fn whoever_waits_hears_of_what_came_again() {
    let board = Board::of_driven();
    let notices = board.notices();
    let thread = std::thread::spawn({
        let notices = notices.clone();
        move || [(); 3].map(|()| told(notices.wait_next(BOUND).unwrap()))
    });
    let began = Instant::now();
    post_troubles(&board).await;
    let thread = tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
    assert!(began.elapsed() < BOUND, "nobody was woken");
    assert_eq!(thread, [(Some(Code::Auth), 1), (Some(Code::OutOfMemory), 1), (Some(Code::Auth), 4)]);

    let board = Board::of_driven();
    let notices = board.notices();
    post_troubles(&board).await;
    assert!(notices.next().await.is_some() && notices.next().await.is_some());
    let mut ready = std::pin::pin!(notices.ready());
    let is_ready = |ready: std::pin::Pin<&mut _>| {
        Future::poll(ready, &mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    };
    assert!(!is_ready(ready.as_mut()));
    tokio::time::timeout(BOUND, ready).await.unwrap();
    assert_eq!(told(notices.next().await), (Some(Code::Auth), 4));
}

#[tokio::test]
async fn what_came_again_is_told_of_at_the_end() {
    for board in [Board::of_driven(), Board::new()] {
        let notices = board.notices();
        post_troubles(&board).await;
        board.end();
        // What is told behind the end is told as it comes.
        board.post(trouble(Code::Auth));
        board.post(trouble(Code::Auth));
        let all: Vec<_> = std::iter::from_fn(|| notices.wait_next(Duration::ZERO).flatten()).collect();
        let all: Vec<_> = all.into_iter().map(|notice| told(Some(notice))).collect();
        let (auth, full) = (Some(Code::Auth), Some(Code::OutOfMemory));
        assert_eq!(all, [(auth, 1), (full, 1), (auth, 4), (auth, 1), (auth, 1)]);
        assert_eq!(notices.next().await, None);
    }
}

#[tokio::test]
async fn a_board_that_is_gone_keeps_no_task() {
    let board = Board::of_driven();
    post_troubles(&board).await;
    let weak = Arc::downgrade(&board.0);
    drop(board);
    assert_eq!(weak.strong_count(), 0);
}

#[test]
fn every_kind_has_its_own_word() {
    let words: std::collections::BTreeSet<_> = NoticeKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(words.len(), NoticeKind::ALL.len());
}
