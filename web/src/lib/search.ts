// What the palette finds: a word from the start of a name counts most, then from the start of any word in it, then anywhere.

export function rank(text: string, query: string): number {
  const [name, words] = [text.toLowerCase(), query.toLowerCase().split(/\s+/).filter(Boolean)]
  let total = 0
  for (const word of words) {
    const at = name.indexOf(word)
    if (at < 0) return 0
    total += at === 0 ? 3 : /[\s._:-]/.test(name[at - 1] ?? '') ? 2 : 1
  }
  return words.length === 0 ? 1 : total
}

export function found<T>(items: readonly T[], query: string, text: (item: T) => string, most: number): T[] {
  return items
    .map((item, at) => ({ item, at, rank: rank(text(item), query) }))
    .filter(each => each.rank > 0)
    .sort((a, b) => b.rank - a.rank || a.at - b.at)
    .slice(0, most)
    .map(each => each.item)
}

const PLACES: Record<string, (id: string) => string> = {
  inv: id => `/?call=${id}`,
  rcp: id => `/receipts/${id}`,
  grt: id => `/policies/grants/${id}`,
  ses: id => `/policies/sessions/${id}`,
  sec: id => `/secrets?secret=${id}`,
  con: id => `/secrets?connection=${id}`,
  spc: id => `/policies/spaces/${id}`,
  aut: id => `/automations/${id}`,
  drf: id => `/automations/drafts/${id}`,
  run: id => `/runs/${id}`,
  art: id => `/artifacts?artifact=${id}`,
  evt: id => `/events?event=${id}`,
  dlt: id => `/events?tab=dead&letter=${id}`,
  dlv: id => `/events?tab=dead&letter=${id}`,
  usr: id => `/settings?q=${id}`,
  tok: id => `/settings?tab=tokens&ended=true&q=${id}`,
  chn: id => `/settings?tab=channels&channel=${id}`,
  ntf: id => `/notifications?notification=${id}`,
  cns: id => `/policies/consents?consent=${id}`,
}

/** The address of the page of an id that was pasted. */
export function placeOfId(text: string): string | undefined {
  const id = text.trim()
  const [, kind] = /^([a-z]{3})_[0-9a-z]+$/.exec(id) ?? []
  return kind ? PLACES[kind]?.(id) : undefined
}
