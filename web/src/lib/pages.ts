// Lists that are short enough to be read whole.

const PAGES_MAX = 30

/** Every item, page by page, up to 3,000; or until there are `enough`. */
export async function everyPage<T>(
  page: (after: string | undefined) => Promise<{ items: T[]; next?: string | null }>,
  enough = Number.POSITIVE_INFINITY,
): Promise<T[]> {
  const items: T[] = []
  let after: string | undefined
  for (let count = 0; count < PAGES_MAX; count += 1) {
    const got = await page(after)
    items.push(...got.items)
    if (!got.next || items.length >= enough) break
    after = got.next
  }
  return items
}
