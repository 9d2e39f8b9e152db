// The page: what is shown (in the address, so that each view has a link), the stream of changes, and the keyboard.

import { Details } from './details.js'
import { h, icon, number } from './dom.js'
import { LaneMap } from './map.js'
import { found, isOf, laneOf, reach } from './model.js'
import { Table } from './table.js'

const $ = (id) => document.getElementById(id)

// The token has become a cookie. It does not stay where others see it.
if (location.search) history.replaceState(null, '', location.pathname + location.hash)

class App {
  lanes = new Map()
  shown = []
  words = []
  synced = false

  constructor() {
    this.map = new LaneMap(this)
    this.table = new Table(this)
    this.details = new Details(this, $('details'))
    this.read()
    this.chrome()
    this.connect()
    addEventListener('hashchange', () => { this.read(); this.refresh() })
    addEventListener('popstate', () => { this.read(); this.refresh() })
    addEventListener('keydown', (event) => this.key(event))
    // A change may put a new element in the place of one that is pressed. The browser then sees no click, so this makes one.
    let pressed = null
    document.addEventListener('pointerdown', (event) => { pressed = event.button === 0 ? event.target.closest('[data-id]') : null })
    document.addEventListener('pointerup', (event) => {
      if (!pressed || pressed.isConnected) return
      const there = document.elementFromPoint(event.clientX, event.clientY)?.closest('[data-id]')
      if (there?.dataset.id === pressed.dataset.id) there.click()
    })
    new ResizeObserver(() => this.redraw()).observe($('main'))
    document.addEventListener('visibilitychange', () => {
      // Browsers allow six connections to a server. A page that nobody sees needs none.
      if (document.hidden) this.stream?.close()
      else this.connect()
    })
  }

  // read takes what to show from the address.
  read() {
    const at = new URLSearchParams(location.hash.slice(1))
    this.view = at.get('view') === 'table' ? 'table' : 'map'
    this.namespace = at.get('ns') ?? ''
    this.search = at.get('q') ?? ''
    this.only = ['bad', 'warn'].includes(at.get('only')) ? at.get('only') : ''
    this.sel = at.get('sel') ?? ''
    this.details.setTab(at.get('tab'))
    this.words = this.search.toLowerCase().split(/\s+/).filter(Boolean)
    if ($('search').value !== this.search) $('search').value = this.search
  }

  // linkTo is the address of this view after a change.
  linkTo(change) {
    const is = { view: this.view, ns: this.namespace, q: this.search, only: this.only, sel: this.sel, tab: this.details.tab, ...change }
    const at = new URLSearchParams()
    for (const [name, value] of Object.entries(is)) {
      const unset = !value || (name === 'view' && value === 'map') || (name === 'tab' && (value === 'Overview' || !is.sel))
      if (!unset) at.set(name, value)
    }
    return `#${at}`
  }

  go(change, replace) {
    const link = this.linkTo(change)
    if (link === (location.hash || '#')) return
    if (replace) history.replaceState(null, '', link)
    else history.pushState(null, '', link)
    this.read()
    this.refresh()
  }

  select(id) {
    const before = this.sel
    this.go({ sel: id === this.sel ? '' : id })
    if (!this.sel && before) this.current.focus(before)
  }

  openTab(tab) { this.go({ tab }, true) }
  selected(id) { return this.sel === id }
  get current() { return this.view === 'table' ? this.table : this.map }

  // about finds what the map has of an object.
  about(id) {
    const network = this.lanes.get(id.slice('Network/'.length))
    if (network && network.id === id) return { is: 'Network', lane: network }
    for (const lane of this.lanes.values()) {
      const port = lane.ports.find((p) => isOf(p, id))
      if (port) return { is: 'port', lane, port }
    }
    return null
  }

  lanesOf(id) {
    return [...this.lanes.values()].filter((lane) => `router/${lane.router?.id}` === id || `outside/${lane.reached?.id}` === id ||
      lane.ports.some((port) => isOf(port, id))).sort((a, b) => (a.key < b.key ? -1 : 1))
  }

  connect() {
    this.stream?.close()
    const stream = new EventSource('api/stream')
    this.stream = stream
    stream.addEventListener('hello', (event) => this.hello(JSON.parse(event.data)))
    stream.addEventListener('view', (event) => this.update(JSON.parse(event.data)))
    stream.onerror = () => this.live(stream.readyState === EventSource.CLOSED ? 'ended' : 'lost')
  }

  hello({ context, namespace }) {
    $('where').replaceChildren(...[context && h('span', { class: 'context', title: `Context ${context}` }, context),
      h('span', { class: 'scope' }, namespace || 'all namespaces')].filter(Boolean))
    $('namespace-label').hidden = namespace !== ''
    document.title = `Networks · ${namespace || 'all namespaces'}${context ? ` · ${context}` : ''}`
    this.live('live')
  }

  live(state) {
    const texts = { live: 'Live', lost: 'Connecting again', ended: 'Ended: start kubectl network ui again' }
    if ($('live').dataset.state === state) return
    $('live').dataset.state = state
    $('live').replaceChildren(h('span', { class: 'dot', 'aria-hidden': 'true' }), texts[state])
  }

  update({ all, synced, entries = [], notes = [] }) {
    this.live('live')
    const before = this.lanes
    if (all) this.lanes = new Map()
    for (const entry of entries) {
      if (!entry.tree) {
        this.lanes.delete(entry.key)
        continue
      }
      const lane = laneOf(entry)
      if (this.synced && !all && lane.problem && before.get(entry.key)?.problem !== lane.problem) {
        this.announce(`Network ${lane.key}: ${lane.problem}`)
      }
      this.lanes.set(entry.key, lane)
    }
    reach([...this.lanes.values()])
    this.synced = synced
    const said = notes.join('\n')
    if ($('notes').dataset.said !== said) {
      $('notes').dataset.said = said
      $('notes').replaceChildren(...notes.map((note) => h('p', {}, icon('warn'), note)))
    }
    // A burst of changes is one redraw.
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.refresh() })
  }

  // refresh shows the lanes that the filters leave.
  refresh() {
    const inNamespace = [...this.lanes.values()].filter((l) => !this.namespace || l.ns === this.namespace)
    const matching = inNamespace.filter((l) => found(l, this.words))
    const counts = { '': matching.length, bad: matching.filter((l) => l.worst === 'bad').length, warn: matching.filter((l) => l.worst === 'warn' || l.warning).length }
    this.shown = matching.filter((l) => !this.only || l.worst === this.only || (this.only === 'warn' && l.warning)).sort((a, b) => (a.key < b.key ? -1 : 1))
    this.chips(counts)
    this.namespaces()
    $('count').textContent = this.synced ? `${number(this.shown.length)} ${this.shown.length === 1 ? 'Network' : 'Networks'}, ${number(this.shown.reduce((n, l) => n + l.ports.length, 0))} ports` : 'Reading the cluster…'
    for (const button of $('views').children) button.setAttribute('aria-pressed', String(button.dataset.view === this.view))
    document.body.classList.toggle('with-details', this.sel !== '')
    $('details').hidden = !this.sel
    this.redraw()
    this.details.show(this.sel)
    if (this.sel && this.sel !== this.revealed) this.current.reveal(this.sel)
    this.revealed = this.shown.length ? this.sel : ''
  }

  redraw() {
    const main = $('main')
    const element = this.shown.length ? this.current.element : this.empty()
    if (main.firstChild !== element) main.replaceChildren(element)
    if (this.shown.length) this.current.show(this.shown)
  }

  empty() {
    if (!this.synced) return h('div', { class: 'empty', role: 'status' }, h('div', { class: 'skeleton', 'aria-hidden': 'true' }, h('i', {}), h('i', {}), h('i', {})))
    if (!this.lanes.size) {
      return h('div', { class: 'empty' }, icon('Network'), h('h2', {}, 'There are no Networks here'),
        h('p', {}, 'Apply one, and it shows here at once:'), h('code', {}, 'kubectl apply -f config/samples/network.yaml'))
    }
    return h('div', { class: 'empty' }, icon('Network'), h('h2', {}, 'No Network fits'), h('p', {}, 'Of all Networks, none fits the search and the filters.'),
      h('button', { class: 'button', type: 'button', onclick: () => this.go({ q: '', only: '', ns: '' }) }, 'Show all'))
  }

  chips(counts) {
    const texts = { '': 'All', bad: 'Problems', warn: 'Warnings' }
    const text = JSON.stringify([counts, this.only])
    if ($('filters').dataset.text === text) return
    $('filters').dataset.text = text
    const focus = $('filters').contains(document.activeElement) && document.activeElement.dataset.only
    $('filters').replaceChildren(...Object.entries(texts).map(([only, name]) => h('button', {
      type: 'button', class: `filter ${only}${counts[only] ? '' : ' zero'}`, 'aria-pressed': String(this.only === only), 'data-only': only,
      onclick: () => this.go({ only }),
    }, only && icon(only), name, h('span', { class: 'badge' }, number(counts[only])))))
    if (focus !== false) $('filters').querySelector(`[data-only="${focus}"]`)?.focus()
  }

  namespaces() {
    const all = ['', ...[...new Set([...this.lanes.values()].map((l) => l.ns))].sort()]
    const text = all.join(' ')
    if ($('namespace').dataset.text !== text) {
      $('namespace').dataset.text = text
      $('namespace').replaceChildren(...all.map((ns) => h('option', { value: ns }, ns || 'All')))
    }
    $('namespace').value = this.namespace
  }

  // chrome makes what stands around the map.
  chrome() {
    $('views').replaceChildren(...[['map', 'Map'], ['table', 'Table']].map(([view, name]) => h('button', {
      type: 'button', 'data-view': view, 'aria-pressed': 'false', onclick: () => this.go({ view }),
    }, name)))
    $('search').addEventListener('input', () => this.go({ q: $('search').value }, true))
    $('namespace').addEventListener('change', () => this.go({ ns: $('namespace').value }))
    $('theme').addEventListener('click', () => {
      const themes = ['auto', 'light', 'dark']
      this.theme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length])
    })
    this.theme(localStorage.getItem('theme') ?? 'auto')
    $('help-button').addEventListener('click', () => this.help())
    $('help').addEventListener('click', (event) => { if (event.target === $('help')) $('help').close() })
  }

  theme(name) {
    document.documentElement.dataset.theme = name
    localStorage.setItem('theme', name)
    const says = { auto: 'Colours: as the system', light: 'Colours: light', dark: 'Colours: dark' }[name]
    $('theme').replaceChildren(icon(name))
    $('theme').setAttribute('aria-label', says)
    $('theme').title = `${says} (d)`
  }

  help() {
    const keys = [['/', 'Search'], ['↑ ↓ or k j', 'The Network before, after'], ['← →', 'On a lane: what hangs on it'], ['Enter', 'Show details'],
      ['Esc', 'Close details, empty the search'], ['m', 'Map or table'], ['p', 'Only problems, or all'], ['d', 'Light or dark'], ['?', 'This list']]
    $('help').replaceChildren(h('h2', { id: 'help-title' }, 'Keyboard'), h('dl', {}, keys.map(([key, what]) => h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)))),
      h('form', { method: 'dialog' }, h('button', { class: 'button' }, 'Close')))
    $('help').showModal()
  }

  announce(text) { $('announcer').append(h('p', {}, text)) }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || $('help').open) return
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
    if (event.key === 'Escape') {
      if (typing && this.search) this.go({ q: '' }, true)
      else if (typing) event.target.blur()
      else if (this.sel) this.select('')
      else return
      event.preventDefault()
      return
    }
    if (typing && event.key !== 'ArrowDown') return
    const action = {
      '/': () => { $('search').focus(); $('search').select() },
      '?': () => this.help(),
      m: () => this.go({ view: this.view === 'map' ? 'table' : 'map' }),
      p: () => this.go({ only: this.only === 'bad' ? '' : 'bad' }),
      d: () => $('theme').click(),
      j: () => this.step(1), ArrowDown: () => this.step(1), k: () => this.step(-1), ArrowUp: () => this.step(-1),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
      ArrowRight: () => this.aside(1), ArrowLeft: () => this.aside(-1),
    }[event.key]
    if (!action || (event.target.closest('#details') && /^(Arrow|Home|End)/.test(event.key))) return
    if (event.target.tagName === 'SELECT') return
    event.preventDefault()
    action()
  }

  // step moves the focus to the Network before or after.
  step(by) {
    const keys = this.current.keys()
    if (!keys.length) return
    const key = document.activeElement?.closest('[data-key]')?.dataset.key
    const at = key === undefined ? -1 : keys.indexOf(`Network/${key}`)
    this.current.focus(keys[Math.min(keys.length - 1, Math.max(0, at < 0 && by < 0 ? 0 : at + by))])
  }

  // aside moves the focus on a lane.
  aside(by) {
    const lane = document.activeElement?.closest('.lane')
    if (!lane) return
    const buttons = [...lane.querySelectorAll('button')]
    buttons[Math.min(buttons.length - 1, Math.max(0, buttons.indexOf(document.activeElement) + by))]?.focus()
  }
}

window.app = new App()
