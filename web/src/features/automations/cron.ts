// A cron expression in words, as the server says them, while somebody types it. What cannot be said in one breath is told field by field. Pure.

const NICKNAMES: Record<string, string> = {
  '@HOURLY': '0 * * * *',
  '@DAILY': '0 0 * * *',
  '@MIDNIGHT': '0 0 * * *',
  '@WEEKLY': '0 0 * * 0',
  '@MONTHLY': '0 0 1 * *',
  '@YEARLY': '0 0 1 1 *',
  '@ANNUALLY': '0 0 1 1 *',
}
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MONTHS = 'January February March April May June July August September October November December'.split(' ')
/** A list of more than this is not read but skimmed. */
const LIST_MAX = 6

/** Nothing where there are not five fields: the server says what is missing. */
export function cronInWords(expression: string): string | undefined {
  const written = expression.trim().toUpperCase()
  const fields = (NICKNAMES[written] ?? written).split(/\s+/)
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields
  if (fields.length !== 5) return undefined
  const said = [times(minute, hour, day === '*' && weekday === '*'), days(day, weekday), months(month)]
  if (said.every(words => words !== undefined)) return said.filter(words => words !== '').join(' ')
  return `minute ${minute}, hour ${hour}, day of the month ${day}, month ${month}, weekday ${weekday}`
}

function times(minute: string, hour: string, isDaily: boolean): string | undefined {
  const [minutes, hours] = [valuesOf(minute, 0, 59), valuesOf(hour, 0, 23)]
  if (!minutes || !hours) return undefined
  const one = minutes.length === 1 ? minutes[0] : undefined
  const past = one ? ` at :${twoDigits(one)}` : ''
  if (hour === '*') {
    if (minute === '*') return 'every minute'
    const step = stepOf(minute, 60)
    if (step) return everyNth(step, 'minute')
    return one === undefined ? undefined : `every hour${past}`
  }
  const step = stepOf(hour, 24)
  if (one !== undefined && step) return everyNth(step, 'hour') + past
  const clocks = listed(hours.flatMap(each => minutes.map(minute => `${twoDigits(each)}:${twoDigits(minute)}`)))
  return clocks && `at ${clocks}${isDaily ? ' every day' : ''}`
}

function days(day: string, weekday: string): string | undefined {
  const [ofMonth, ofWeek] = [daysOfMonth(day), daysOfWeek(weekday)]
  // Either of them is enough, if both are said.
  return ofMonth === undefined || ofWeek === undefined ? undefined : [ofMonth, ofWeek].filter(words => words !== '').join(' and ')
}

function daysOfMonth(day: string): string | undefined {
  if (day === '*') return ''
  if (day === 'L') return 'on the last day of the month'
  if (day === 'LW') return 'on the last weekday of the month'
  const list = listed(valuesOf(day, 1, 31)?.map(ordinal))
  return list && `on the ${list} of the month`
}

function daysOfWeek(weekday: string): string | undefined {
  if (weekday === '*') return ''
  // Sunday is 0 and 7.
  const found = valuesOf(weekday, 0, 7, WEEKDAYS)?.map(day => day % 7)
  const all = found && [...new Set(found)].sort((a, b) => a - b)
  if (all?.join() === '1,2,3,4,5') return 'on weekdays'
  if (all?.join() === '0,6') return 'on Saturdays and Sundays'
  const list = listed(all?.map(day => `${WEEKDAYS[day]}s`))
  return list && `on ${list}`
}

function months(month: string): string | undefined {
  if (month === '*') return ''
  const list = listed(valuesOf(month, 1, 12, MONTHS)?.map(each => MONTHS[each - 1] ?? ''))
  return list && `in ${list}`
}

/** What a field of numbers, names, ranges and steps means, in order; nothing if it is none. */
function valuesOf(field: string, min: number, max: number, names: readonly string[] = []): number[] | undefined {
  const read = (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : min + names.findIndex(name => name.slice(0, 3).toUpperCase() === text)
    return value >= min && value <= max ? value : Number.NaN
  }
  const found = new Set<number>()
  for (const item of field.split(',')) {
    const [range = '', step, ...more] = item.split('/')
    const [first = '', last, ...further] = range === '*' ? [String(min), String(max)] : range.split('-')
    const [from, to, by] = [read(first), read(last ?? first), Number(step ?? 1)]
    const isRange = last !== undefined || step === undefined
    if (!(from <= to) || !(Number.isInteger(by) && by > 0) || !isRange || more.length + further.length > 0) return undefined
    for (let value = from; value <= to; value += by) found.add(value)
  }
  return [...found].sort((a, b) => a - b)
}

/** The step of a field that is a star with a step, if it divides the whole: otherwise it is no rhythm. */
function stepOf(field: string, whole: number): number | undefined {
  const step = Number(/^\*\/(\d+)$/.exec(field)?.[1])
  return whole % step === 0 ? step : undefined
}

const everyNth = (step: number, unit: string): string => (step === 1 ? `every ${unit}` : `every ${step} ${unit}s`)

const twoDigits = (value: number): string => String(value).padStart(2, '0')

function ordinal(day: number): string {
  const ending = Math.floor(day / 10) === 1 ? undefined : ['st', 'nd', 'rd'][(day % 10) - 1]
  return `${day}${ending ?? 'th'}`
}

function listed(words: readonly string[] | undefined): string | undefined {
  if (!words || words.length === 0 || words.length > LIST_MAX) return undefined
  const last = words.at(-1)
  return words.length === 1 ? last : `${words.slice(0, -1).join(', ')} and ${last}`
}
