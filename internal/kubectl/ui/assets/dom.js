// Small helpers that make elements. All text goes in as text: nothing here parses markup.

// h makes an element. A property that begins with "on" is a listener, "class" and attributes are set as such, and
// "vars" are CSS variables.
export function h(tag, props, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else if (name === 'vars') for (const [of, is] of Object.entries(value)) element.style.setProperty(of, is)
    else element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false))
  return element
}

// The icons' outlines, in a square of 16.
const shapes = {
  ok: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M5 8.2l2.1 2.1L11.2 6',
  bad: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M8 4.8v4M8 11.2v.1',
  warn: 'M8 2 1.5 13.5h13zM8 6.3v3.4M8 11.6v.1',
  wait: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M8 4.5V8l2.3 1.5',
  Network: 'M1.5 5h13M1.5 11h13M5 5v3M11 11v3M11 5v2',
  NetworkPort: 'M5.5 2v3.5M10.5 2v3.5M3.5 5.5h9V8a4.5 4.5 0 0 1-9 0zM8 12.5V15',
  SecurityGroup: 'M8 1.5l5.5 2V8c0 3.3-2.2 5.5-5.5 6.5C4.7 13.5 2.5 11.3 2.5 8V3.5zM5.5 8l1.8 1.8L10.7 6.4',
  FloatingIP: 'M8 14.5s4.8-4.6 4.8-8.2a4.8 4.8 0 0 0-9.6 0c0 3.6 4.8 8.2 4.8 8.2zM8 4.6a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6',
  port: 'M5.5 2v3.5M10.5 2v3.5M3.5 5.5h9V8a4.5 4.5 0 0 1-9 0zM8 12.5V15',
  Pod: 'M8 1.5 13.8 4.7v6.6L8 14.5l-5.8-3.2V4.7zM2.2 4.7 8 8l5.8-3.3M8 8v6.5',
  server: 'M2 2.5h12v4.5H2zM2 9h12v4.5H2zM4.5 4.8h.1M4.5 11.3h.1',
  router: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M4 8h3M5.2 6.7 4 8l1.2 1.3M12 8H9M10.8 6.7 12 8l-1.2 1.3M8 4v2.5M8 12V9.5',
  outside: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M1.5 8h13M8 1.5c-4 4-4 9 0 13M8 1.5c4 4 4 9 0 13',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  light: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1',
  dark: 'M13.5 9.7A6 6 0 1 1 6.3 2.5a5 5 0 0 0 7.2 7.2z',
  auto: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M8 1.5v13M8 4.5h3.5M8 7h5M8 9.5h5M8 12h3',
}

// icon draws one. Without a label, readers of the screen pass over it.
export function icon(name, label) {
  const ns = 'http://www.w3.org/2000/svg'
  const svg = document.createElementNS(ns, 'svg')
  svg.setAttribute('viewBox', '0 0 16 16')
  svg.setAttribute('class', `icon icon-${name}`)
  if (label) {
    svg.setAttribute('role', 'img')
    svg.setAttribute('aria-label', label)
  } else {
    svg.setAttribute('aria-hidden', 'true')
  }
  const path = document.createElementNS(ns, 'path')
  path.setAttribute('d', shapes[name] ?? shapes.port)
  svg.append(path)
  return svg
}

// meter shows how much of something is in use.
export function meter(used, total, what) {
  const share = total > 0 ? used / total : 0
  const level = share >= 1 ? 'full' : share >= 0.85 ? 'high' : 'low'
  const fill = h('span', { class: 'fill' })
  fill.style.width = `${Math.min(100, Math.max(share * 100, used > 0 ? 3 : 0))}%`
  return h('span', {
    class: `meter ${level}`, role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': total, 'aria-valuenow': used,
    'aria-valuetext': `${used} of ${total}`, 'aria-label': what,
  }, fill)
}

// number writes a number for people: the addresses of an IPv6 subnet have twenty digits.
export function number(n) {
  if (n >= 1e15) return `${(n / 10 ** Math.floor(Math.log10(n))).toFixed(1)}×10${superscript(Math.floor(Math.log10(n)))}`
  return n.toLocaleString('en')
}

const superscript = (n) => String(n).replace(/\d/g, (d) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[d])

// short is an id in the space of a word.
export const short = (id) => (/^[0-9a-f]{8}-[0-9a-f]{4}-/.test(id) ? id.slice(0, 8) : id)
