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

/** Where an id that was pasted leads. */
export function placeOfId(text: string): { to: '/'; call: string } | { to: '/receipts/$receipt'; receipt: string } | undefined {
  const id = text.trim()
  if (/^inv_[0-9a-z]+$/.test(id)) return { to: '/', call: id }
  if (/^rcp_[0-9a-z]+$/.test(id)) return { to: '/receipts/$receipt', receipt: id }
  return undefined
}
