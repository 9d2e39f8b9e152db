// The page replays the controller's events. It keeps them all, and shows the pipeline as it was after the last one that
// it replayed: so the view can pause, and the controller does not.

import chinese from './zh.js'
import sentences from './events.js'

const $ = (id) => document.getElementById(id)

// The page's words are in the reader's language. Steps, names and causes are as in the controller's log.
const language = localStorage.language ?? (navigator.language.startsWith('zh') ? 'zh' : 'en')
const word = (text) => (language === 'zh' && chinese[text]) || text

// say is a tag of templates: their sentence in the reader's language, with the values.
function say(parts, ...values) {
  const [first, ...rest] = word(parts.join('{}')).split('{}')
  return first + rest.map((part, i) => values[i] + part).join('')
}

// sentence says in the reader's language what happened.
function sentence({ stage, what = '', why = '', facts = [], resourceVersion }) {
  const keys = [[stage, what, why], [stage, what], [stage, why], [stage]]
  const found = keys.map((key) => sentences[key.filter(Boolean).join(' ')]).find(Boolean)
  const rest = [...facts]
  return found?.[language === 'zh' ? 1 : 0].replace(/\{(\w*)\}/g, (_, name) =>
    ({ what, version: resourceVersion, all: facts.join(' ') })[name] ?? rest.shift()) ?? `${what} ${why}`
}

// translate puts the texts of index.html into the reader's language.
function translate() {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en'
  document.title = word(document.title)
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim()
    if (text) texts.currentNode.data = texts.currentNode.data.replace(text, word(text))
  }
  for (const element of document.querySelectorAll('[aria-label]')) element.ariaLabel = word(element.ariaLabel)
  const [other, name] = language === 'zh' ? ['en', 'English'] : ['zh', '中文']
  Object.assign($('language'), { lang: other, textContent: name, onclick: () => {
    localStorage.language = other
    location.reload()
  } })
}

// h makes an element. All text goes in as text: nothing here parses markup.
function h(tag, props, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else if (value !== undefined && value !== false) element.setAttribute(name, value)
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== ''))
  return element
}

// The stages, in the order of docs/how-it-works.md.
const stages = [
  ['api', 'API server', 'Keeps every object, and tells who watches'],
  ['reflector', 'Reflector', 'Lists once, then watches the API server'],
  ['deltafifo', 'Delta FIFO', 'Queues the changes in their order'],
  ['indexer', 'Indexer', 'The cache that listers read'],
  ['handlers', 'Handlers', 'Turn an event into a key'],
  ['queue', 'Workqueue', 'Holds each key once'],
  ['worker', 'Worker', 'Takes a key and calls the sync'],
  ['plan', 'Plan', 'Desired minus observed state: steps'],
  ['batch', 'Batch', 'Gathers creates into one call'],
  ['neutron', 'Neutron', 'The cloud: each call takes time, and may fail'],
  ['inventory', 'Inventory', 'The cache of what is in Neutron'],
  ['status', 'Status', 'Back to the API server, for users'],
].map(([id, name, does]) => [id, word(name), word(does)])
// The arrows: their name, the stages that they join, and a label. The last three lead back.
const arrows = [
  ['watch', 'api', 'reflector', 'list, watch'], ['change', 'reflector', 'deltafifo'], ['store', 'deltafifo', 'indexer'],
  ['call', 'indexer', 'handlers'], ['key', 'handlers', 'queue'], ['take', 'queue', 'worker', 'take'],
  ['read', 'worker', 'plan'], ['step', 'plan', 'batch'], ['send', 'batch', 'neutron'], ['answer', 'neutron', 'inventory'],
  ['tell', 'inventory', 'status'],
  ['write', 'status', 'api', 'write'], ['retry', 'worker', 'queue', 'retry'], ['due', 'queue', 'queue', 'when due'],
]
const WIDE = matchMedia('(min-width: 1101px)') // else there are no arrows: the stages stand one after the other
const nameOf = Object.fromEntries(stages.map(([id, name]) => [id, name]))
nameOf.process = say`Process`

const SLOW = 900 // milliseconds of an event in slow motion
const GLOW = 1500 // milliseconds in which a live arrow is lit
const ROWS = 500 // of the log
const short = (object) => object.split('/').slice(1).filter(Boolean).join('/')
const kindOf = (object) => object.split('/')[0]

// State is what the stages hold after some events.
class State {
  constructor() { this.reset() }

  reset() {
    this.waiting = new Map()
    this.processing = new Map()
    this.backing = new Map()
    this.fifo = new Set()
    this.stored = new Map()
    this.kinds = new Set() // those whose Indexer is watched
    this.batch = new Map()
    this.calls = 0
    this.last = {} // the last event of each stage, of the shown object
    this.audit = undefined
    this.version = undefined
    this.newest = 0 // the highest resourceVersion
    this.wrote = new Set() // the resourceVersions of the controller's own writes
    this.came = new Set() // those that the watch has brought
  }

  // lights gives the arrows of an event that comes next.
  lights(e) {
    const own = this.wrote.has(e.resourceVersion) ? ['write'] : []
    const back = this.came.has(e.resourceVersion) ? ['watch'] : []
    switch (`${e.stage} ${e.what}`) {
      case 'deltafifo replaced': case 'deltafifo tombstone': return ['watch', 'change'] // by a list
      case 'queue waits': return [this.backing.has(e.objects?.[0]) ? 'due' : 'key']
      case 'queue backs off': case 'queue later': return ['retry']
      case 'worker starts': return ['take']
      case 'batch sent': return ['send']
      case 'neutron answers': return ['answer']
      case 'status same': return ['tell']
    }
    return { reflector: ['watch', ...own], deltafifo: ['change'], indexer: ['store'], handlers: ['call'], queue: ['key'],
      plan: ['read'], batch: ['step'], neutron: ['send'], inventory: ['answer'], status: ['tell', 'write', ...back] }[e.stage] ?? []
  }

  apply(e, shown) {
    const [key] = e.objects ?? []
    switch (`${e.stage} ${e.what}`) {
      case 'process started': case 'process gone': this.reset(); break
      case 'queue waits': this.waiting.set(key, e); this.backing.delete(key); break
      case 'worker starts': this.waiting.delete(key); this.backing.delete(key); this.processing.set(key, e); break
      case 'worker ends': this.processing.delete(key); break
      case 'queue backs off': case 'queue later': this.waiting.delete(key); this.processing.delete(key); this.backing.set(key, e); break
      case 'batch waits': this.batch.set(key, e); break
      case 'batch sent': this.batch.delete(key); break
      case 'neutron sends': this.calls++; break
      case 'neutron answers': this.calls = Math.max(0, this.calls - 1); break
      case 'inventory audit': this.audit = e; break
      case 'indexer removed': this.stored.delete(key); this.fifo.delete(key); break
      case 'indexer stored': this.stored.set(key, e.resourceVersion); this.kinds.add(kindOf(key)); this.fifo.delete(key); break
    }
    this.newest = Math.max(this.newest, Number(e.resourceVersion ?? 0))
    // A list also brings what the Indexer has already: it stores nothing then.
    if (e.stage === 'deltafifo' && (e.what !== 'replaced' || this.stored.get(key) !== e.resourceVersion)) this.fifo.add(key)
    if (e.stage === 'reflector') {
      this.version = e.resourceVersion
      this.came.add(e.resourceVersion)
    }
    if (e.stage === 'status' && e.resourceVersion) this.wrote.add(e.resourceVersion)
    if (shown) this.last[e.stage] = e
  }
}

class App {
  events = [] // all that arrived
  at = 0 // how many of them are replayed
  mode = 'live'
  seq = 0
  pid = 0
  state = new State()
  objects = new Set()
  object = decodeURIComponent(location.hash.slice(1)) || ''
  due = new Set() // methods to call in the next frame
  lit = new Map() // when an arrow was lit
  glowing = [] // the arrows of the last event

  constructor() {
    this.boxes = Object.fromEntries(stages.map(([id, name, does]) => {
      const holds = h('div', { class: 'holds' })
      const code = h('code', {})
      const box = h('li', { class: 'stage', 'data-stage': id }, h('h3', {}, name), h('p', { class: 'does' }, does), holds, code)
      $('pipeline').append(box)
      return [id, { box, holds, code }]
    }))
    this.arrows = Object.fromEntries(arrows.map(([id, from, to, label]) => {
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
      const text = document.createElementNS('http://www.w3.org/2000/svg', 'text')
      path.dataset.arrow = id
      text.textContent = label ? word(label) : ''
      $('arrows').append(path, text)
      return [id, { path, text, from: this.boxes[from].box, to: this.boxes[to].box }]
    }))
    this.now = h('li', { class: 'now', 'aria-hidden': 'true' }) // the log says it, too
    $('pipeline').append(this.now)
    this.token = h('li', { id: 'token', 'aria-hidden': 'true', hidden: '' })
    $('pipeline').append(this.token)
    for (const mode of ['live', 'slow', 'pause']) $(mode).onclick = () => this.setMode(mode)
    $('step').onclick = () => this.step()
    $('object').onchange = () => this.choose($('object').value)
    addEventListener('hashchange', () => this.choose(decodeURIComponent(location.hash.slice(1))))
    addEventListener('resize', () => this.place())
    addEventListener('keydown', (event) => this.key(event))
    this.setMode('live')
    this.pick()
    this.actions()
    this.connect()
    setInterval(() => { if (this.mode === 'slow') this.step(true) }, SLOW)
    setInterval(() => this.draw(), 250) // what is left of a backoff
  }

  // shows reports whether an event is about what is selected. What concerns all is about no object.
  shows(e) {
    return !this.object || e.stage === 'process' || (e.objects ?? []).includes(this.object)
  }

  connect() {
    const stream = new EventSource('stream')
    stream.addEventListener('hello', (message) => {
      const { pid } = JSON.parse(message.data)
      if (pid === this.pid) return
      const text = this.pid
        ? say`Process ${pid} started. Its queue and its caches were empty: it listed everything, so no lost key matters.`
        : say`Process ${pid} runs. This is the way of each object through it.`
      this.pid = pid
      this.seq = 0
      this.arrive({ stage: 'process', what: 'started', text })
    })
    stream.addEventListener('gone', () => this.arrive({ stage: 'process', what: 'gone',
      text: say`The process is gone, with its queue, its backoffs and its caches. The API server and Neutron keep what they have.` }))
    stream.addEventListener('event', (message) => {
      const e = JSON.parse(message.data)
      if (e.seq <= this.seq) return // sent again after a lost connection
      this.seq = e.seq
      e.text = sentence(e)
      this.arrive(e)
    })
  }

  arrive(e) {
    e.time ??= new Date().toISOString()
    this.events.push(e)
    const [object] = e.objects ?? []
    if (object && !this.objects.has(object)) {
      this.objects.add(object)
      this.soon('pick')
    }
    this.soon('follow')
  }

  // follow shows what has arrived, or tells how much.
  follow() {
    if (this.mode === 'live') this.replay(this.events.length)
    else this.said()
  }

  // soon calls a method in the next frame, once, however many events ask for it: thousands may arrive in a second.
  soon(method) {
    this.due.add(method)
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined
      const due = [...this.due]
      this.due.clear()
      for (const method of due) this[method]()
    })
  }

  // replay shows the events up to one.
  replay(to) {
    const rows = []
    for (; this.at < to; this.at++) {
      const e = this.events[this.at]
      const shown = this.shows(e)
      if (shown) {
        rows.unshift(e)
        this.glowing = this.state.lights(e)
        for (const arrow of this.glowing) this.lit.set(arrow, performance.now())
      }
      this.state.apply(e, shown)
    }
    if (rows.length) {
      $('events').prepend(...rows.slice(0, ROWS).map(rowOf))
      while ($('events').rows.length > ROWS) $('events').lastChild.remove()
      this.active = rows[0]
    }
    this.soon('draw')
  }

  // step shows the next event that is about what is selected. In slow motion, others pass at once.
  step(slow) {
    if (!slow) this.setMode('pause')
    let next = this.at
    while (next < this.events.length && !this.shows(this.events[next])) next++
    if (next === this.events.length) {
      this.replay(next)
      this.said()
      return
    }
    this.replay(next + 1)
    const e = this.events[next]
    $('announcer').textContent = `${nameOf[e.stage]}: ${e.text} ${codeOf(e)}`
  }

  setMode(mode) {
    this.mode = mode
    for (const name of ['live', 'slow', 'pause']) $(name).setAttribute('aria-pressed', name === mode)
    if (mode === 'live') this.replay(this.events.length)
    this.said()
  }

  // said tells how far the view is behind.
  said() {
    const left = this.events.slice(this.at).filter((e) => this.shows(e)).length
    const text = left ? say`The view is ${left} events behind. The controller goes on.` : this.mode === 'live' ? '' : say`The view has shown all.`
    if ($('behind').textContent !== text) $('behind').textContent = text
  }

  choose(object) {
    if (object === this.object) return
    this.object = object
    history.replaceState(null, '', object ? `#${object}` : location.pathname)
    this.pick()
    this.again()
  }

  // again replays all up to where the view is.
  again() {
    const to = this.at
    this.at = 0
    this.state.reset()
    this.active = undefined
    this.glowing = []
    this.lit.clear()
    $('events').replaceChildren()
    this.replay(to)
    this.said()
  }

  // pick fills the list of objects.
  pick() {
    const kinds = Map.groupBy([...this.objects, ...(this.object && !this.objects.has(this.object) ? [this.object] : [])].sort(),
      kindOf)
    $('object').replaceChildren(h('option', { value: '' }, say`All objects`),
      ...[...kinds].map(([kind, all]) => h('optgroup', { label: kind }, all.map((object) =>
        h('option', { value: object }, short(object))))))
    $('object').value = this.object
  }

  async actions() {
    for (const { name, ...texts } of await (await fetch('actions')).json()) {
      const [label, shows] = [word(texts.label), word(texts.shows)]
      const button = h('button', { type: 'button', title: shows, 'data-action': name }, label)
      button.onclick = async () => {
        if (button.ariaDisabled === 'true') return
        button.ariaDisabled = 'true'
        this.tell(say`${label}: ${shows}`)
        try {
          const answer = await fetch(`actions/${name}`, { method: 'POST' })
          const text = (await answer.text()).trim()
          this.tell(answer.ok ? `${word(text)} ${shows}` : say`${label} failed: ${text}`, !answer.ok)
        } catch (problem) {
          this.tell(say`${label} failed: ${problem.message}`, true)
        }
        button.ariaDisabled = 'false'
      }
      $('actions').append(button)
    }
  }

  tell(text, bad) {
    $('said').textContent = text
    $('said').classList.toggle('bad', Boolean(bad))
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('select')) return
    const does = {
      p: () => this.setMode(this.mode === 'pause' ? 'live' : 'pause'),
      l: () => this.setMode('live'), s: () => this.setMode('slow'), n: () => this.step(),
    }[event.key]
    if (!does) return
    event.preventDefault()
    does()
  }

  // draw shows what the stages hold.
  draw() {
    const s = this.state
    const last = this.events[this.at - 1]
    const now = this.mode === 'live' || !last ? Date.now() : Date.parse(last.time)
    const hold = {
      api: s.newest ? say`resourceVersion ${s.newest} or later` : '',
      reflector: s.last.reflector?.what === 'expired' ? say`Lists all objects again: the watch expired` : s.version && say`Last resourceVersion: ${s.version}`,
      deltafifo: s.last.deltafifo?.what === 'tombstone' ? say`Passed on a tombstone: the list lacks the object` : say`${[...s.fifo].filter((object) => s.kinds.has(kindOf(object))).length} on the way`,
      indexer: this.object && s.stored.has(this.object) ? say`Holds this at resourceVersion ${s.stored.get(this.object)}` : say`${s.stored.size} objects`,
      handlers: s.last.handlers?.what === 'tombstone' ? say`Got a tombstone: DeletedFinalStateUnknown, with the state of resourceVersion ${s.last.handlers.resourceVersion}`
        : s.last.handlers && say`Last: ${s.last.handlers.what}`,
      worker: s.processing.size ? say`${s.processing.size} running` : say`Idle`,
      plan: s.last.plan && say`Last plan: ${s.last.plan.what}`,
      batch: say`${s.batch.size} waiting`,
      neutron: s.calls ? say`Calls under way: ${s.calls}` : s.last.neutron?.what === 'answers' ? s.last.neutron.text : say`No call under way`,
      inventory: s.audit?.text,
      status: s.last.status && (s.last.status.resourceVersion ? say`Wrote resourceVersion ${s.last.status.resourceVersion}` : s.last.status.text),
    }
    for (const [id, text] of Object.entries(hold)) {
      const { holds } = this.boxes[id]
      if (holds.textContent !== (text ?? '')) holds.textContent = text ?? ''
    }
    for (const [key, e] of s.backing) if (Date.parse(e.until) < now - 2000) s.backing.delete(key)
    const list = (name, of, text) => h('div', {}, h('h4', {}, say`${name}: ${of.length}`), h('ul', {}, of.slice(0, 3).map(([key, e]) =>
      h('li', { class: key === this.object ? 'mine' : undefined, title: key }, text(key, e)))))
    const left = (e) => `${Math.max(0, (Date.parse(e.until) - now) / 1000).toFixed(1)} s`
    const named = (key) => (key === this.object ? short(key) : `${kindOf(key)} ${short(key)}`)
    const mine = (of) => [...of].sort(([a], [b]) => (b === this.object) - (a === this.object))
    const lists = h('div', { class: 'lists' },
      list(say`Waiting`, mine(s.waiting), named), list(say`Processing`, mine(s.processing), named),
      list(say`Backing off, or later`, mine(s.backing), (key, e) => `${left(e)} ${named(key)}`))
    const queue = this.boxes.queue.holds
    if (!queue.firstChild?.isEqualNode(lists)) queue.replaceChildren(lists)
    for (const [id, { box, code }] of Object.entries(this.boxes)) {
      const last = s.last[id]
      const at = last?.code?.file ? `${last.code.file.split('/').pop()}:${last.code.line}` : ''
      if (code.textContent !== at) code.textContent = at
      code.title = last ? codeOf(last) : ''
      box.classList.toggle('tombstone', last?.what === 'tombstone')
      const is = this.active?.stage === id
      box.classList.toggle('active', is)
      if (is) box.setAttribute('aria-current', 'step')
      else box.removeAttribute('aria-current')
    }
    for (const [id, { path }] of Object.entries(this.arrows)) {
      path.classList.toggle('lit', this.glowing.includes(id) ||
        this.mode === 'live' && performance.now() - this.lit.get(id) < GLOW)
    }
    if (this.told !== this.active) this.now.replaceChildren(...(this.active ? caption(this.active) : []))
    this.told = this.active
    this.place()
  }

  // place moves the token to the stage of the last event, and has the arrows drawn between the boxes.
  place() {
    const box = this.boxes[this.active?.stage]?.box
    this.token.hidden = !box
    if (box) this.token.style.transform = `translate(${box.offsetLeft + box.offsetWidth - 24}px, ${box.offsetTop + 12}px)`
    // Reading where the boxes are costs a layout, and they hardly move: once for the many events that come together.
    this.wiring ??= setTimeout(() => { this.wiring = undefined; this.wire() }, 100)
  }

  // wire draws the arrows between the boxes.
  wire() {
    if (!WIDE.matches) return
    const origin = $('flow').getBoundingClientRect()
    const edges = (element) => {
      const { left, right, top, bottom } = element.getBoundingClientRect()
      return { left: left - origin.left, right: right - origin.left, top: top - origin.top, bottom: bottom - origin.top }
    }
    for (const [id, { path, text, from, to }] of Object.entries(this.arrows)) {
      const [a, b] = [edges(from), edges(to)]
      let d, x, y
      if (id === 'due') { // inside of the queue, from its last list to its first
        const [first, , last] = [...from.querySelectorAll('h4')].map(edges)
        if (!last) continue
        const up = first.top - 12
        d = `M${last.left + 24} ${first.top - 2}V${up}H${first.left + 24}V${first.top - 2}`
        x = (first.left + last.left) / 2 + 24
        y = up - 4
      } else if (a.top < b.top || a.top > b.bottom) { // between rows
        const left = Math.max(a.left, b.left) // of what both boxes share
        const at = left + (Math.min(a.right, b.right) - left) * ({ take: 0.25, retry: 0.65 }[id] ?? 0.5)
        const [start, end] = a.top < b.top ? [a.bottom, b.top] : [a.top, b.bottom]
        d = `M${at} ${start}V${end}`
        x = at + 10
        y = (start + end) / 2 + 4
      } else {
        y = a.top + 26
        d = `M${a.left < b.left ? a.right : a.left} ${y}H${a.left < b.left ? b.left : b.right}`
      }
      if (path.getAttribute('d') === d) continue
      path.setAttribute('d', d)
      text.setAttribute('x', x ?? 0)
      text.setAttribute('y', y)
    }
  }
}

const codeOf = (e) => (e.code?.file ? `${e.code.file}:${e.code.line}` : '')

// caption says what the last event was.
function caption(e) {
  return [h('p', {}, h('strong', {}, nameOf[e.stage]), e.resourceVersion ? say` at resourceVersion ${e.resourceVersion}: ` : say`: `, e.text),
    h('code', {}, codeOf(e))]
}

function rowOf(e) {
  const about = (e.objects ?? []).length > 1 ? say` (${e.objects.length} objects)` : ''
  return h('tr', { class: e.stage === 'process' ? 'process' : undefined, 'data-stage': e.stage, 'data-what': e.what },
    h('td', {}, new Date(e.time).toTimeString().slice(0, 8) + new Date(e.time).toISOString().slice(19, 23)),
    h('td', {}, nameOf[e.stage]), h('td', {}, e.resourceVersion ?? ''),
    h('td', {}, (e.objects?.[0] && !app?.object ? `${short(e.objects[0])}: ` : '') + e.text + about),
    h('td', {}, h('code', {}, codeOf(e)), ' ', h('span', { class: 'func' }, e.code?.func ?? '')))
}

translate()
let app
app = new App()
window.app = app
