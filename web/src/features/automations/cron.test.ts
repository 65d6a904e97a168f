import { expect, test } from 'vitest'
import { cronInWords } from './cron'

test('an expression is told in the words of the server if they are few, else field by field', () => {
  for (const [cron, words] of [
    ['* * * * *', 'every minute'],
    ['*/15 * * * *', 'every 15 minutes'],
    ['*/7 * * * *', 'minute */7, hour *, day of the month *, month *, weekday *'],
    ['@hourly', 'every hour'],
    ['5 * * * *', 'every hour at :05'],
    ['0 */6 * * *', 'every 6 hours'],
    ['30 */2 * * 1-5', 'every 2 hours at :30 on weekdays'],
    ['0 9 * * *', 'at 09:00 every day'],
    ['0 9 * * 1-5', 'at 09:00 on weekdays'],
    [' 0  9 * * mon-fri ', 'at 09:00 on weekdays'],
    ['0 9,17 * * 6,0', 'at 09:00 and 17:00 on Saturdays and Sundays'],
    ['0 9 * * 6-7', 'at 09:00 on Saturdays and Sundays'],
    ['0 9 * * 1,3,5', 'at 09:00 on Mondays, Wednesdays and Fridays'],
    ['0 9 * * 1-5/2', 'at 09:00 on Mondays, Wednesdays and Fridays'],
    ['0 0 1,15 * *', 'at 00:00 on the 1st and 15th of the month'],
    ['0 0 13 * 5', 'at 00:00 on the 13th of the month and on Fridays'],
    ['0 0 L 3,6,9,12 *', 'at 00:00 on the last day of the month in March, June, September and December'],
    ['0 18 LW * *', 'at 18:00 on the last weekday of the month'],
    ['@yearly', 'at 00:00 on the 1st of the month in January'],
    ['0 9 11,12,22,23 feb *', 'at 09:00 on the 11th, 12th, 22nd and 23rd of the month in February'],
    ['0 9 * * 1#1', 'minute 0, hour 9, day of the month *, month *, weekday 1#1'],
    ['0 9 15W * *', 'minute 0, hour 9, day of the month 15W, month *, weekday *'],
    ['0 0-12 * * *', 'minute 0, hour 0-12, day of the month *, month *, weekday *'],
  ] as const)
    expect(cronInWords(cron), cron).toBe(words)
})

test('what the server refuses is not told as if it fired', () => {
  for (const cron of ['60 9 * * *', '5/10 9 * * *', '0 9 31-1 * *', '0 9 * * 8', '0 9 * 13 *', '*/0 * * * *'])
    expect(cronInWords(cron), cron).toMatch(/^minute /)
  for (const none of ['', '@often', '0 9 * *', '0 0 9 * * *']) expect(cronInWords(none), none).toBeUndefined()
})
