// The table: the same Networks as rows. Only the rows in view are in the document; their numbers say where they are.

import { h, icon, meter, number, short } from './dom.js'
import { isOf, words } from './model.js'

const rowHeight = 44
const overscan = 10

const columns = [
  { name: 'State', value: (l) => ({ bad: 0, warn: 1, wait: 2, ok: 3 })[l.worst] },
  { name: 'Name', value: (l) => l.name },
  { name: 'Namespace', value: (l) => l.ns },
  { name: 'Subnets', value: (l) => l.subnets[0]?.cidr ?? '' },
  { name: 'Addresses', value: (l) => (l.total ? -l.used / l.total : 1) },
  { name: 'Ports', value: (l) => -l.ports.length },
  { name: 'Router', value: (l) => l.router?.id ?? '~' },
  { name: 'Outside', value: (l) => l.reached?.id ?? '~' },
]

export class Table {
  constructor(app) {
    this.app = app
    this.sort = { column: columns[1], down: false }
    this.head = h('tr', {})
    this.rows = h('tbody', {})
    this.table = h('table', {}, h('caption', { class: 'sr' }, 'Networks'), h('thead', {}, this.head), this.rows)
    this.element = h('div', { class: 'table', tabindex: -1 }, this.table)
    this.element.addEventListener('scroll', () => this.draw(), { passive: true })
    this.lanes = []
  }

  show(lanes) {
    const { column, down } = this.sort
    this.lanes = [...lanes].sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)]
      return (x < y ? -1 : x > y ? 1 : a.key < b.key ? -1 : 1) * (down ? -1 : 1)
    })
    const focused = this.head.contains(document.activeElement) && document.activeElement.textContent
    this.head.replaceChildren(...columns.map((c) => {
      const is = c === column
      return h('th', { scope: 'col', class: `col-${c.name.toLowerCase()}`, 'aria-sort': is ? (down ? 'descending' : 'ascending') : undefined },
        h('button', {
          type: 'button', onclick: () => { this.sort = { column: c, down: is && !down }; this.show(this.lanes) },
        }, c.name, h('span', { class: 'arrow', 'aria-hidden': 'true' }, is ? (down ? '↓' : '↑') : '')))
    }))
    if (focused) [...this.head.querySelectorAll('button')].find((b) => b.textContent.startsWith(focused.replace(/[↑↓]/, '')))?.focus()
    this.table.setAttribute('aria-rowcount', this.lanes.length + 1)
    this.draw()
  }

  draw() {
    const from = Math.max(0, Math.floor(this.element.scrollTop / rowHeight) - overscan)
    const to = Math.min(this.lanes.length, Math.ceil((this.element.scrollTop + this.element.clientHeight) / rowHeight) + overscan)
    const focus = this.rows.contains(document.activeElement) && document.activeElement.dataset.id
    const space = (rows) => {
      const row = h('tr', { class: 'space', 'aria-hidden': 'true' }, h('td', { colspan: columns.length }))
      row.style.height = `${rows * rowHeight}px`
      return row
    }
    this.rows.replaceChildren(space(from), ...this.lanes.slice(from, to).map((lane, i) => this.row(lane, from + i)), space(this.lanes.length - to))
    if (focus) this.rows.querySelector(`[data-id="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true })
  }

  row(lane, index) {
    const selected = this.app.selected(lane.id)
    const says = lane.problem || (lane.bad ? `${lane.bad} ${lane.bad === 1 ? 'port' : 'ports'} not ready` : lane.warning || words[lane.worst])
    return h('tr', {
      'aria-rowindex': index + 2, class: selected ? 'selected' : undefined, 'data-key': lane.key,
      onclick: () => this.app.select(lane.id),
    },
    h('td', {}, h('span', { class: `state ${lane.worst}` }, icon(lane.worst), says)),
    h('th', { scope: 'row' }, h('button', { class: 'row-name', type: 'button', 'data-id': lane.id, 'aria-pressed': String(selected) }, lane.name)),
    h('td', {}, lane.ns),
    h('td', {}, h('code', {}, lane.subnets[0]?.cidr ?? '–'), lane.subnets.length > 1 && h('span', { class: 'ns' }, ` +${lane.subnets.length - 1}`)),
    h('td', {}, lane.total !== undefined && h('span', { class: 'usage' }, meter(lane.used, lane.total, 'Addresses in use'),
      h('span', {}, `${number(lane.used)} of ${number(lane.total)}`))),
    h('td', { class: 'num' }, String(lane.ports.length)),
    h('td', {}, h('code', { title: lane.router?.id }, lane.router ? short(lane.router.id) : '–')),
    h('td', {}, h('code', { title: lane.reached?.id }, lane.reached ? short(lane.reached.id) : '–')))
  }

  keys() { return this.lanes.map((lane) => lane.id) }

  reveal(id) {
    const index = this.lanes.findIndex((l) => l.id === id || l.ports.some((port) => isOf(port, id)))
    if (index < 0) return
    const y = index * rowHeight
    const room = this.element.clientHeight - rowHeight // the head stays in view
    if (y < this.element.scrollTop) this.element.scrollTop = y
    else if (y + rowHeight > this.element.scrollTop + room) this.element.scrollTop = y + rowHeight - room
    this.draw()
  }

  focus(id) {
    this.reveal(id)
    this.element.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus({ preventScroll: true })
  }
}
