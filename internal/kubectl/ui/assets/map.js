// The map: a lane for each Network, with its subnets as bars and the ports hanging on them. Only the lanes in view are
// in the document.

import { h, icon, meter, number, short } from './dom.js'
import { isOf, portFound, sectionsOf, words } from './model.js'

const pad = 20 // around everything
const gap = 14 // between lanes
const sectionGap = 26
const outsideWidth = 124
const routerWidth = 148
const cable = 34 // between the columns
const head = 46
const bar = 28
const barGap = 10
const row = 70 // of cards, with the line that they hang on
const foot = 14
const cardWidth = 178
const cardGap = 10
const shownRows = 2
const overscan = 500

export class LaneMap {
  constructor(app) {
    this.app = app
    this.list = h('ul', { class: 'lanes', role: 'list', 'aria-label': 'Networks, as lanes' })
    this.rails = h('div', { class: 'rails' })
    this.world = h('div', { class: 'world' }, this.rails, this.list)
    this.element = h('div', { class: 'map', tabindex: -1 }, this.world)
    this.element.addEventListener('scroll', () => this.draw(), { passive: true })
    this.drawn = new Map()
    this.expanded = new Set()
    this.placed = []
  }

  // show lays lanes out, and keeps what is in view where it is.
  show(lanes) {
    const anchor = this.placed.find((p) => p.y + p.height > this.element.scrollTop)
    const offset = anchor ? anchor.y - this.element.scrollTop : 0
    const width = this.element.clientWidth
    const sections = sectionsOf(lanes)
    const routers = sections.some((s) => s.groups.some((g) => g.router)) && width >= 780
    const outsides = routers && sections.some((s) => s.outside)
    const routerX = pad + (outsides ? outsideWidth + cable : 0)
    const laneX = routers ? routerX + routerWidth + cable : pad
    this.laneWidth = width - laneX - pad
    this.perRow = Math.max(1, Math.floor((this.laneWidth - 2 - 30 - 16 + cardGap) / (cardWidth + cardGap)))
    this.narrow = !routers
    this.placed = []
    this.rails.replaceChildren()
    this.groups = []
    let y = pad
    for (const section of sections) {
      const top = y
      let last = y
      for (const group of section.groups) {
        const groupTop = y
        for (const lane of group.lanes) {
          const height = this.heightOf(lane)
          this.placed.push({ lane, y, height })
          y += height + gap
        }
        last = groupTop
        if (routers && group.router) {
          this.groups.push({ group, y: groupTop, height: y - gap - groupTop, x: routerX, outsides: outsides && section.outside })
        }
      }
      if (outsides && section.outside) this.rails.append(this.outside(section, top, y - gap - top, last - top))
      y += sectionGap
    }
    this.world.style.height = `${y}px`
    this.list.style.left = `${laneX}px`
    this.list.style.width = `${this.laneWidth}px`
    this.total = this.placed.length
    const again = anchor && this.placed.find((p) => p.lane.key === anchor.lane.key)
    if (again) this.element.scrollTop = again.y - offset
    this.draw(true)
  }

  rowsOf(lane, ports) {
    const rows = Math.ceil(ports.length / this.perRow)
    return this.expanded.has(lane.key) ? rows : Math.min(rows, shownRows)
  }

  barsOf(lane) {
    const bars = lane.subnets.map((subnet) => ({ subnet, ports: subnet.ports }))
    if (lane.loose.length || !bars.length) bars.push({ subnet: null, ports: lane.loose })
    return bars
  }

  heightOf(lane) {
    return head + foot + this.barsOf(lane).reduce((sum, b, i) => sum + (i ? barGap : 0) + bar + row * this.rowsOf(lane, b.ports), 0)
  }

  // draw brings what is in view into the document, and the rest out of it.
  draw(anew) {
    const from = this.element.scrollTop - overscan
    const to = this.element.scrollTop + this.element.clientHeight + overscan
    const keep = new Set()
    // The lanes are in order of y.
    let i = lowerBound(this.placed, (p) => p.y + p.height < from)
    let before = null
    for (; i < this.placed.length && this.placed[i].y < to; i++) {
      const { lane, y, height } = this.placed[i]
      keep.add(lane.key)
      let element = this.drawn.get(lane.key)
      if (!element || element.lane !== lane || anew) {
        const fresh = this.lane(lane, i)
        if (element) {
          const focus = element.contains(document.activeElement) && document.activeElement.dataset.id
          if (element.lane !== lane) fresh.classList.add('changed')
          element.replaceWith(fresh)
          if (focus) fresh.querySelector(`[data-id="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true })
        } else if (before) before.after(fresh)
        else this.list.prepend(fresh)
        fresh.lane = lane
        element = fresh
        this.drawn.set(lane.key, element)
      }
      element.style.transform = `translateY(${y}px)`
      element.style.height = `${height}px`
      if (before && before.nextSibling !== element) before.after(element)
      before = element
    }
    for (const [key, element] of this.drawn) {
      if (keep.has(key)) continue
      element.remove()
      this.drawn.delete(key)
    }
    for (const rail of this.groups) {
      const seen = rail.y < to && rail.y + rail.height > from
      if (seen && !rail.element) this.rails.append((rail.element = this.router(rail)))
      else if (!seen && rail.element) {
        rail.element.remove()
        rail.element = null
      }
    }
  }

  outside(section, y, height, last) {
    const element = h('div', { class: 'outside-rail' },
      h('button', {
        class: 'node outside', type: 'button', 'data-id': `outside/${section.id}`, 'aria-pressed': String(this.app.selected(`outside/${section.id}`)),
        title: `External network ${section.id}`, onclick: () => this.app.select(`outside/${section.id}`),
      }, icon('outside'), h('span', { class: 'node-text' }, h('strong', {}, 'Outside'), h('code', {}, short(section.id)))))
    element.style.top = `${y}px` // what is sticky in it does not see a transform
    element.style.left = `${pad}px`
    element.style.height = `${height}px`
    element.style.width = `${outsideWidth}px`
    const trunk = h('span', { class: 'trunk' })
    trunk.style.left = `${outsideWidth + cable / 2}px`
    trunk.style.top = '22px'
    trunk.style.height = `${Math.max(0, last)}px`
    element.append(trunk)
    return element
  }

  router({ group, y, height, x, outsides }) {
    const id = `router/${group.router.id}`
    const element = h('div', { class: `router-rail${outsides ? ' up' : ''}` },
      h('button', {
        class: 'node router', type: 'button', 'data-id': id, 'aria-pressed': String(this.app.selected(id)),
        title: `Router ${group.router.id}`, onclick: () => this.app.select(id),
      }, icon('router'), h('span', { class: 'node-text' }, h('strong', {}, 'Router'),
        h('code', {}, group.outside?.addresses || short(group.router.id)))))
    element.style.top = `${y}px` // what is sticky in it does not see a transform
    element.style.left = `${x}px`
    element.style.height = `${height}px`
    element.style.width = `${routerWidth}px`
    // From the router to the last bar that it serves.
    let bottom = 22
    let at = y
    for (const lane of group.lanes) {
      const laneTop = at - y
      let inner = head
      this.barsOf(lane).forEach((b, i) => {
        if (i) inner += barGap
        if (b.subnet?.routed) bottom = laneTop + inner + bar / 2
        inner += bar + row * this.rowsOf(lane, b.ports)
      })
      at += this.heightOf(lane) + gap
    }
    const trunk = h('span', { class: 'trunk' })
    trunk.style.left = `${routerWidth + cable / 2}px`
    trunk.style.top = '22px'
    trunk.style.height = `${bottom - 22}px`
    element.append(trunk)
    return element
  }

  lane(lane, index) {
    const selected = this.app.selected(lane.id)
    const label = `${lane.name}, namespace ${lane.ns}, ${words[lane.state]}${lane.problem ? `, ${lane.problem}` : ''}`
    const chips = []
    if (lane.problem) chips.push(h('span', { class: `chip ${lane.state}` }, icon(lane.state), lane.problem))
    if (lane.warning) chips.push(h('span', { class: 'chip warn' }, icon('warn'), lane.warning))
    if (lane.bad) chips.push(h('span', { class: 'chip bad' }, icon('bad'), `${lane.bad} ${lane.bad === 1 ? 'port' : 'ports'} not ready`))
    if (this.narrow && lane.router) chips.push(h('span', { class: 'chip' }, icon('router'), short(lane.router.id)))
    const element = h('li', {
      class: `lane ${lane.worst}${selected ? ' selected' : ''}`, 'aria-setsize': this.total, 'aria-posinset': index + 1,
      vars: { '--lane': lane.colour }, 'data-key': lane.key,
    }, h('div', { class: 'lane-head' },
      h('h2', {}, h('button', {
        class: 'lane-name', type: 'button', 'data-id': lane.id, 'aria-pressed': String(selected), 'aria-label': label,
        onclick: () => this.app.select(lane.id),
      }, icon(lane.state), h('span', { class: 'name' }, lane.name), h('span', { class: 'ns' }, lane.ns))),
      h('span', { class: 'lane-chips' }, chips),
      h('span', { class: 'lane-count' }, lane.ports.length === 1 ? '1 port' : `${lane.ports.length} ports`)))
    let top = head
    this.barsOf(lane).forEach((b, i) => {
      if (i) top += barGap
      element.append(this.bar(lane, b.subnet, top))
      top += bar
      const rows = this.rowsOf(lane, b.ports)
      if (rows) element.append(this.cards(lane, b, rows, top))
      top += row * rows
    })
    return element
  }

  bar(lane, subnet, top) {
    const element = subnet
      ? h('div', { class: `subnet${subnet.routed && !this.narrow ? ' routed' : ''}` },
        h('code', { class: 'cidr' }, subnet.cidr),
        h('span', { class: 'gateway' }, subnet.gateway ? `gateway ${subnet.gateway}` : 'no gateway'),
        subnet.total !== undefined && subnet.used !== undefined && h('span', { class: 'usage' },
          h('span', {}, `${number(subnet.used)} of ${number(subnet.total)}`), meter(subnet.used, subnet.total, 'Addresses in use')))
      : h('div', { class: 'subnet none' }, h('span', { class: 'gateway' },
        lane.subnets.length ? 'Ports without an address' : lane.loose.length ? 'No subnet yet; ports wait' : 'No subnet yet'))
    element.style.top = `${top}px`
    return element
  }

  cards(lane, { subnet, ports }, rows, top) {
    const search = this.app.words
    const ordered = search.length || !this.expanded.has(lane.key) ? urgentFirst(ports, search) : ports
    const room = rows * this.perRow
    const cut = ordered.length > room
    const shown = ordered.slice(0, cut ? room - 1 : room).map((port) => this.card(port, search))
    if (cut) {
      shown.push(h('li', {}, h('button', {
        class: 'card more', type: 'button', 'data-id': `more/${lane.key}/${subnet?.cidr ?? ''}`,
        onclick: () => { this.expanded.add(lane.key); this.app.redraw() },
      }, `Show ${ordered.length - shown.length} more`)))
    }
    const lines = []
    for (let i = 0; i < shown.length; i += this.perRow) {
      lines.push(h('ul', { class: 'cards', role: 'list', 'aria-label': `Ports on ${subnet?.cidr ?? lane.name}` }, shown.slice(i, i + this.perRow)))
    }
    const element = h('div', { class: `hang${subnet ? '' : ' none'}`, vars: { '--per-row': this.perRow } }, lines)
    element.style.top = `${top}px`
    return element
  }

  card(port, search) {
    const what = port.user ?? port
    const detail = port.problem || (port.kind === 'NetworkPort' ? port.info : port.info.split(' ')[0])
    return h('li', {}, h('button', {
      class: `card ${port.state}${portFound(port, search) ? ' hit' : ''}`, type: 'button', 'data-id': port.id,
      'aria-pressed': String(isOf(port, this.app.sel)),
      title: [port.user && `${port.user.kind} ${port.user.name} ${port.user.info}`, `${port.kind} ${port.ns ? `${port.ns}/` : ''}${port.name}`,
        port.info, port.problem, port.warning].filter(Boolean).join('\n'),
      'aria-label': `${what.kind ?? port.kind} ${what.name}, ${port.info}, ${words[port.state]}${port.problem ? `, ${port.problem}` : ''}${port.warning ? `, ${port.warning}` : ''}`,
      onclick: () => this.app.select(port.id),
    }, icon(what.kind ?? port.kind), h('span', { class: 'card-text' }, named(short(what.name)),
      h('span', { class: `card-detail${port.problem ? ' reason' : ''}` }, detail)),
    port.state !== 'ok' && icon(port.state)))
  }

  // keys are the ids that arrow keys go through: the lanes, in order.
  keys() { return this.placed.map((p) => p.lane.id) }

  // reveal scrolls to an object's lane.
  reveal(id) {
    const at = this.placed.find((p) => p.lane.id === id || p.lane.ports.some((port) => isOf(port, id)) ||
      `router/${p.lane.router?.id}` === id || `outside/${p.lane.reached?.id}` === id)
    if (!at) return
    const top = this.element.scrollTop
    if (at.y < top) this.element.scrollTop = at.y - gap
    else if (at.y + Math.min(at.height, this.element.clientHeight) > top + this.element.clientHeight) {
      this.element.scrollTop = at.y + Math.min(at.height, this.element.clientHeight - 2 * gap) - this.element.clientHeight + gap
    }
    this.draw()
  }

  focus(id) {
    this.reveal(id)
    this.element.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus({ preventScroll: true })
  }
}

// urgentFirst puts what a search is for first, and then what is wrong.
function urgentFirst(ports, search) {
  const rank = (port) => (portFound(port, search) ? 0 : port.state === 'bad' ? 1 : port.state === 'warn' ? 2 : 3)
  return ports.map((port, i) => [rank(port), i, port]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((t) => t[2])
}

// named is a name whose end stays in view: that is where Pods of one Deployment differ.
function named(name) {
  const cut = name.length > 18 ? name.length - 6 : name.length
  return h('span', { class: 'card-name' }, h('span', {}, name.slice(0, cut)), name.slice(cut))
}

function lowerBound(list, less) {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (less(list[middle])) low = middle + 1
    else high = middle
  }
  return low
}
