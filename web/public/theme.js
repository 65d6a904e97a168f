// Loaded before the styles, so that a page never flashes in the other theme. A file of its own: no script is inline.
;(() => {
  const chosen = localStorage.getItem('theme')
  const dark = chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  document.documentElement.classList.toggle('dark', dark)
})()
