use super::*;

#[test]
fn an_expression_is_told_in_words_if_they_are_few() {
    for (cron, words) in [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", "`*/7 * * * *`"),
        ("@hourly", "every hour"),
        ("5 * * * *", "every hour at :05"),
        ("0 */6 * * *", "every 6 hours"),
        ("30 */2 * * 1-5", "every 2 hours at :30 on weekdays"),
        ("0 9 * * *", "at 09:00 every day"),
        ("0 9 * * 1-5", "at 09:00 on weekdays"),
        ("0 9 * * mon-fri", "at 09:00 on weekdays"),
        ("0 9,17 * * 6,0", "at 09:00 and 17:00 on Saturdays and Sundays"),
        ("0 9 * * 1,3,5", "at 09:00 on Mondays, Wednesdays and Fridays"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and 15th of the month"),
        ("0 0 13 * 5", "at 00:00 on the 13th of the month and on Fridays"),
        ("0 0 L 3,6,9,12 *", "at 00:00 on the last day of the month in March, June, September and December"),
        ("0 18 LW * *", "at 18:00 on the last weekday of the month"),
        ("@yearly", "at 00:00 on the 1st of the month in January"),
        ("0 9 11,12,22,23 2 *", "at 09:00 on the 11th, 12th, 22nd and 23rd of the month in February"),
        ("0 9 * * 1#1", "`0 9 * * 1#1`"),
        ("0 9 15W * *", "`0 9 15W * *`"),
        ("0 0-12 * * *", "`0 0-12 * * *`"),
    ] {
        assert_eq!(schedule(cron, "UTC", json!({})).describe(), words, "{cron}");
    }
}
