// Checks the links and pictures of the built site, with their anchors. Links to other hosts are not followed.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const here = path.dirname(fileURLToPath(import.meta.url))

const root = path.resolve(here, '../../../dist/docs')
const base = process.env.DOCS_BASE ?? '/'
const all = fs.readdirSync(root, { recursive: true })
const files = new Set(all)
const pages = new Map(all.filter((name) => name.endsWith('.html'))
  .map((name) => [name, fs.readFileSync(path.join(root, name), 'utf8')]))
const ids = new Map([...pages].map(([name, html]) =>
  [name, new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))]))

let links = 0
const problems = []
for (const [name, html] of pages) {
  for (const [, link] of html.matchAll(/ (?:href|src)="([^"]+)"/g)) {
    if (/^([a-z]+:|\/\/)/.test(link)) continue
    links++
    const { pathname, hash } = new URL(link.replaceAll('&amp;', '&'), `http://site${base}${name}`)
    let to = decodeURI(pathname).slice(base.length)
    if (to === '' || to.endsWith('/')) to += 'index.html'
    if (!files.has(to) && files.has(to + '.html')) to += '.html'
    const id = decodeURIComponent(hash.slice(1))
    if (!files.has(to)) problems.push(`${name}: ${link} is broken`)
    else if (id && !ids.get(to)?.has(id)) problems.push(`${name}: ${link}: there is no such anchor`)
  }
}
problems.forEach((problem) => console.error(problem))
console.log(`${pages.size} pages, ${links} links`)
process.exit(problems.length ? 1 : 0)
