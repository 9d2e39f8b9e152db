// Copies the repository's Markdown into pages/, where VitePress reads it, and rewrites its links to the site's paths.
// The sources stay as they are: they read well on GitHub, too. Each file of code that a page links to becomes a page.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import sections from './sections.mjs'
import { fileURLToPath } from 'node:url'

const here = path.dirname(fileURLToPath(import.meta.url))

const root = path.resolve(here, '../../..')
const out = path.join(here, 'pages')
const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
const files = new Set(git('ls-files', '-co', '--exclude-standard').split('\n')
  .filter((name) => fs.existsSync(path.join(root, name))))
const pages = new Set([...files].filter((name) => name.endsWith('.md') && !/(^tools\/|\/preface\.md$)/.test(name)))
const text = (name) => fs.readFileSync(path.join(root, name), 'utf8')
const titleOf = (name) => text(name).match(/^# (.*)$/m)[1].replaceAll('`', '')

// placeOf is where a page or picture of the repository is on the site.
function placeOf(name) {
  if (name === 'README.zh-CN.md') return 'zh/index.md'
  if (name === 'README.md') return 'index.md'
  // SECURITY.md is not docs/security.md, and some file systems take them for one.
  if (!name.includes('/')) return 'project/' + name.toLowerCase()
  return name.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
}

const code = new Map() // linked files of code, each with the linked symbols
const folders = new Set() // linked folders

// target is a link of a page as the site needs it.
function target(from, link) {
  if (/^([a-z]+:|#)/.test(link)) return link
  const [file, fragment] = link.split('#')
  const name = path.posix.join(path.posix.dirname(from), file).replace(/\/$/, '')
  let place
  if (pages.has(name) || /\.(svg|png|gif)$/.test(name)) {
    place = placeOf(name)
  } else if (files.has(name)) {
    place = `code/${name}.md`
    code.set(name, code.get(name) ?? new Set()).get(name).add(fragment)
  } else {
    place = `code/${name}/index.md`
    folders.add(name)
  }
  const relative = path.posix.relative(path.posix.dirname(placeOf(from)), place)
  return (relative.startsWith('.') ? '' : './') + relative + (fragment ? '#' + fragment : '')
}

// rewrite changes the links outside of code, and escapes what Vue would take for a tag.
function rewrite(from, text) {
  let fence = ''
  return text.replace(/<picture>[^]*?<\/picture>/g, byScheme).split('\n').map((line) => {
    const found = line.match(/^ *(```+)/)
    if (found && (!fence || found[1].startsWith(fence))) {
      fence = fence ? '' : found[1]
      return line
    }
    if (fence) return line
    const spans = []
    return line
      .replace(/`[^`]*`/g, (span) => `\0${spans.push(span) - 1}\0`)
      .replace(/!\[([^\]]*)\]\(([^()\s]+)\)/g, (image, alt, link) =>
        hasSchemes(path.posix.join(path.posix.dirname(from), link))
          ? pair(alt, inScheme(link, 'light'), inScheme(link, 'dark')) : image)
      .replace(/\]\(([^()\s]+)\)/g, (_, link) => `](${target(from, link)})`)
      .replace(/ src="([^"]+)"/g, (_, link) => ` src="${target(from, link)}"`)
      .replace(/<(?!\/?(a|br|img|p|div|sub|sup|details|summary|kbd)\b|!--)/g, '&lt;')
      .replace(/\0(\d+)\0/g, (_, n) => spans[n])
  }).join('\n')
}

// byScheme gives a picture for the site's colours, which a reader may choose, and not for the system's.
function byScheme(picture) {
  const dark = picture.match(/srcset="([^"]+)"/)[1]
  const [, alt, light] = picture.match(/<img alt="([^"]*)" src="([^"]+)"/)
  return pair(alt, light, dark)
}

const pair = (alt, light, dark) =>
  `<img class="light-only" alt="${alt}" src="${light}">\n<img class="dark-only" alt="${alt}" src="${dark}">`

// A drawing that has both schemes in itself asks the system which. Here it is two: with the rules for the dark scheme
// always, and never.
const darkRules = /@media \(prefers-color-scheme: dark\) \{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}/
const hasSchemes = (name) => name.endsWith('.svg') && files.has(name) && darkRules.test(text(name))
const inScheme = (name, scheme) => name.replace(/\.svg$/, `-${scheme}.svg`)

// withAnchors is a file of code as a page, with an anchor before each linked symbol.
function withAnchors(name, symbols) {
  const lines = text(name).split('\n')
  const at = new Map()
  for (const symbol of symbols) {
    if (!symbol) continue
    const [type, method] = symbol.split('.')
    const pattern = method
      ? new RegExp(`^func \\((\\w+ )?\\*?${type}(\\[.*?\\])?\\) ${method}\\(`)
      : new RegExp(`^(\\t|func |type |var |const )${type}\\b`)
    let line = lines.findIndex((l) => pattern.test(l))
    while (/^\s*\/\//.test(lines[line - 1])) line--
    at.set(line, (at.get(line) ?? '') + `<a id="${symbol}"></a>`)
  }
  const language = { '.go': 'go', '.sh': 'sh', '.yaml': 'yaml', '.mod': 'go', '.json': 'json' }[path.extname(name)] ?? 'text'
  const fence = '`'.repeat(6)
  const body = lines.map((l, i) => (at.has(i) ? `${fence}\n\n${at.get(i)}\n\n${fence}${language}\n` : '') + l)
  return `# ${name}\n\n${fence}${language}\n${body.join('\n').trimEnd()}\n${fence}\n`
}

function write(place, text) {
  const file = path.join(out, place)
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file, text)
}
const aside = '---\nsearch: false\nsidebar: false\naside: false\n---\n\n' // of pages that are not documentation

fs.rmSync(out, { recursive: true, force: true })
const order = (name) => name.replace('README.md', '')
const expand = (name) => name.endsWith('/')
  ? [...pages].filter((page) => page.startsWith(name)).sort((a, b) => (order(a) < order(b) ? -1 : 1)) : [name]
for (const section of sections) section.pages = section.pages.flatMap(expand)
for (const name of pages) write(placeOf(name), rewrite(name, text(name)))
for (const [name, symbols] of code) write(`code/${name}.md`, aside + withAnchors(name, symbols))
for (const name of folders) {
  const inside = [...files].filter((file) => path.posix.dirname(file) === name).map((file) =>
    pages.has(file) ? `- [${titleOf(file)}](/${placeOf(file)})` : `- \`${path.posix.basename(file)}\``)
  write(`code/${name}/index.md`, `${aside}# ${name}\n\n${inside.join('\n')}\n`)
}
for (const name of files) {
  if (!/^docs\/.*\.(svg|png|gif)$/.test(name)) continue
  write(placeOf(name), fs.readFileSync(path.join(root, name)))
  if (!hasSchemes(name)) continue
  write(placeOf(inScheme(name, 'light')), text(name).replace(darkRules, ''))
  write(placeOf(inScheme(name, 'dark')), text(name).replace(darkRules, '$1'))
}
write('public/icon.svg', text('internal/kubectl/ui/assets/icon.svg'))

// A page has the same path in both languages, so that a reader can switch. Where the translation is missing, the
// Chinese one leads to the English one.
const translations = new Map([...pages].map((name) => [placeOf(name), name]).filter(([place]) => place.startsWith('zh/')))
for (const place of fs.readdirSync(out, { recursive: true })) {
  if (!place.endsWith('.md') || place.startsWith('zh/') || translations.has('zh/' + place)) continue
  const title = fs.readFileSync(path.join(out, place), 'utf8').match(/^# .*$/m)[0]
  write('zh/' + place, `---\nsearch: false\n---\n\n${title}\n\n这一页还没有中文版，请阅读[英文版](/${place})。\n`)
}

const item = (name) => ({ text: name === 'README.md' ? 'Try and install' : titleOf(name), link: '/' + placeOf(name) })
function itemInChinese(name) {
  const translation = translations.get('zh/' + placeOf(name))
  return translation ? { text: name === 'README.md' ? '试用与安装' : titleOf(translation), link: '/zh/' + placeOf(name) } : item(name)
}
const sidebar = (language, item) => sections.map((section) =>
  ({ text: section[language], collapsed: section.collapsed ?? false, items: section.pages.map(item) }))
fs.writeFileSync(path.join(here, '.vitepress/site.json'), JSON.stringify({
  version: git('describe', '--tags', '--always'), en: sidebar('en', item), zh: sidebar('zh', itemInChinese),
}))
