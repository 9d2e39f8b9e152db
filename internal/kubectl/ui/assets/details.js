// The panel of what is selected: what is wrong and what to do, its conditions, drift, Events and YAML.

import { h, icon, meter, number } from './dom.js'
import { words } from './model.js'

const tabs = ['Overview', 'Events', 'YAML']
const refresh = 30000 // milliseconds, for what no watch tells: conditions of Pods and Deployments
const burst = 100 // milliseconds; Events that come together are one request
const readable = /^(Network|NetworkPort|SecurityGroup|FloatingIP|Pod|Deployment)\//

export class Details {
  constructor(app, element) {
    this.app = app
    this.element = element
    this.tab = tabs[0]
  }

  // show shows an object, or nothing. It asks the server again when the object or its part of the map has changed.
  show(id) {
    if (this.id !== id) {
      this.id = id
      this.data = null
      this.error = ''
      this.drawn = ''
      this.follow(id)
    }
    this.element.hidden = !id
    clearTimeout(this.timer)
    if (!id) return
    if (readable.test(id)) this.load(id)
    else this.draw()
  }

  // follow has the Events of an object tell when they change.
  follow(id) {
    this.stream?.close()
    this.stream = null
    clearTimeout(this.news)
    if (!id || !readable.test(id)) return
    this.stream = new EventSource(`api/events?${query(id)}`)
    this.stream.onmessage = () => {
      clearTimeout(this.news)
      this.news = setTimeout(() => { if (this.id === id) this.load(id) }, burst)
    }
  }

  async load(id) {
    if (!this.data && !this.error) this.draw()
    try {
      const answer = await fetch(`api/object?${query(id)}`)
      const content = await answer.json()
      if (this.id !== id) return // another one is selected
      this.error = answer.ok ? '' : content.error
      if (answer.ok) this.data = content
    } catch {
      if (this.id !== id) return
      this.error = 'The command does not answer: kubectl network ui may have ended.'
    }
    this.draw()
    clearTimeout(this.timer)
    this.timer = setTimeout(() => { if (this.id === id && !document.hidden) this.load(id) }, refresh)
  }

  setTab(tab) {
    this.tab = tabs.includes(tab) ? tab : tabs[0]
  }

  draw() {
    const [kind] = this.id.split('/')
    const name = this.id.slice(kind.length + 1)
    const drawn = JSON.stringify([this.id, this.tab, this.error, this.data, this.app.about(this.id)])
    if (drawn === this.drawn) return // what the reader has marked or focused stays
    const keep = this.drawn && this.element.querySelector('.panel-body')?.scrollTop
    this.drawn = drawn
    const focus = this.element.contains(document.activeElement) && document.activeElement.dataset.focus
    const [ns, ...rest] = name.split('/')
    const titled = rest.length ? rest.join('/') : name
    const body = h('div', { class: 'panel-body', tabindex: -1 })
    this.element.replaceChildren(
      h('header', { class: 'panel-head' },
        h('div', { class: 'panel-title' }, icon(kind), h('div', {},
          h('p', { class: 'kind' }, kindWords[kind] ?? kind, rest.length ? ` in ${ns}` : ''),
          h('h2', {}, titled))),
        h('button', { class: 'icon-button', type: 'button', 'aria-label': 'Close', title: 'Close (Esc)', 'data-focus': 'close', onclick: () => this.app.select('') }, icon('close'))),
      this.data ? this.tabList() : '', body)
    if (this.error && !this.data) body.append(h('p', { class: 'box bad' }, this.error))
    else if (kind === 'router' || kind === 'outside' || kind === 'port' || kind === 'server') body.append(...this.cloud(kind, name))
    else if (!this.data) body.append(h('p', { class: 'muted' }, 'Reading…'))
    else {
      body.setAttribute('role', 'tabpanel')
      body.setAttribute('aria-label', this.tab)
      if (this.error) body.append(h('p', { class: 'box bad' }, `${this.error} What you see is its last state.`))
      body.append(...{ Overview: () => this.overview(), Events: () => this.events(), YAML: () => this.yaml() }[this.tab]())
    }
    if (keep) body.scrollTop = keep
    if (focus) this.element.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true })
  }

  tabList() {
    const warnings = (this.data.events ?? []).filter((e) => e.type === 'Warning').length
    return h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Details' }, tabs.map((tab) => h('button', {
      role: 'tab', type: 'button', 'aria-selected': String(tab === this.tab), tabindex: tab === this.tab ? 0 : -1, 'data-focus': `tab-${tab}`,
      onclick: () => this.app.openTab(tab),
      onkeydown: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
        if (!by) return
        event.stopPropagation()
        event.preventDefault()
        const to = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length]
        this.app.openTab(to)
        this.element.querySelector(`[data-focus="tab-${to}"]`)?.focus()
      },
    }, tab, tab === 'Events' && this.data.events?.length ? h('span', { class: `badge${warnings ? ' warn' : ''}` }, String(this.data.events.length)) : '')))
  }

  overview() {
    const { answer, conditions = [], drift = [] } = this.data
    const parts = []
    if (answer.healthy) parts.push(h('div', { class: 'box ok' }, icon('ok'), h('p', {}, answer.summary)))
    else {
      const serves = answer.chain[0].condition === 'Ready=True' // drift that is left, or a pause
      const title = serves ? 'What needs attention' : 'What is wrong'
      const state = serves ? 'warn' : 'bad'
      parts.push(h('section', { class: `box ${state}`, 'aria-label': title }, icon(state), h('div', {},
        h('h3', {}, title),
        h('ol', { class: 'chain' }, answer.chain.map((link) => h('li', {},
          h('p', {}, this.link(link.object), ' ', h('strong', { class: 'reason' }, link.reason)),
          link.message && h('p', { class: 'message' }, link.message),
          link.since && h('p', { class: 'muted' }, 'for ', since(link.since))))))))
      if (answer.remedy || answer.commands) {
        parts.push(h('section', { class: 'box todo', 'aria-label': 'What to do' }, h('div', {},
          h('h3', {}, 'What to do'), answer.remedy && h('p', { class: 'remedy' }, answer.remedy),
          (answer.commands ?? []).map((command) => this.command(command)))))
      }
    }
    for (const warning of answer.warnings ?? []) parts.push(h('div', { class: 'box warn' }, icon('warn'), h('p', {}, warning)))
    for (const note of answer.notes ?? []) parts.push(h('div', { class: 'box note' }, h('p', {}, `Not known: ${note}`)))
    parts.push(...this.facts())
    if (drift.length) {
      parts.push(h('section', {}, h('h3', {}, 'Drift'), h('div', { class: 'scroll' }, h('table', { class: 'small' },
        h('thead', {}, h('tr', {}, ['Field', 'Declared', 'In Neutron'].map((n) => h('th', { scope: 'col' }, n)))),
        h('tbody', {}, drift.map((d) => h('tr', {}, h('th', { scope: 'row' }, `${d.resource} ${d.field}`), h('td', {}, h('code', {}, d.declared || '–')), h('td', {}, h('code', {}, d.actual || '–')))))))))
    }
    parts.push(h('section', {}, h('h3', {}, 'Conditions'), conditions.length
      ? h('ul', { class: 'conditions' }, conditions.map((c) => h('li', {},
        icon(c.bad ? (c.type === 'Ready' && c.status !== 'True' ? 'bad' : 'warn') : 'ok', c.bad ? 'Problem' : 'Good'),
        h('div', {}, h('p', {}, h('strong', {}, c.type), ` ${c.status} `, h('span', { class: 'muted' }, c.reason ? `${c.reason}, for ` : 'for ', since(c.since))),
          c.message && h('p', { class: 'message' }, c.message),
          c.remedy && c.remedy !== answer.remedy && h('p', { class: 'remedy' }, c.remedy)))))
      : h('p', { class: 'muted' }, 'None yet.')))
    return parts
  }

  // facts are what the map knows of the object.
  facts() {
    const about = this.app.about(this.id)
    if (!about) return []
    const rows = []
    const add = (name, ...value) => rows.push(h('div', {}, h('dt', {}, name), h('dd', {}, value)))
    if (about.lane && about.is === 'Network') {
      const lane = about.lane
      if (lane.neutronID) add('Id in Neutron', h('code', {}, lane.neutronID))
      if (lane.reached) add('Outside', this.object(`outside/${lane.reached.id}`, lane.reached.id), lane.reached.addresses && h('code', {}, ` ${lane.reached.addresses}`))
      if (lane.router) add('Router', this.object(`router/${lane.router.id}`, lane.router.id))
      const sections = rows.length ? [h('section', {}, h('h3', {}, 'In the cloud'), h('dl', {}, rows))] : []
      if (lane.subnets.length) {
        sections.push(h('section', {}, h('h3', {}, 'Subnets'), h('ul', { class: 'usages' }, lane.subnets.map((s) => h('li', {},
          h('p', {}, h('code', {}, s.cidr), h('span', { class: 'muted' }, s.gateway ? ` gateway ${s.gateway}` : ' no gateway')),
          s.total !== undefined && s.used !== undefined ? h('p', { class: 'usage' }, meter(s.used, s.total, 'Addresses in use'), `${number(s.used)} of ${number(s.total)} in use`) : h('p', { class: 'muted' }, 'The number of addresses in use is not known.'))))))
      }
      return sections
    }
    if (about.port) {
      add('Network', this.object(about.lane.id, about.lane.key))
      add('Addresses', h('code', {}, about.port.info))
      if (this.data.owner) add('Made for', this.link(this.data.owner))
      if (about.port.user && this.id !== about.port.user.id) add('Used by', this.object(about.port.user.id, `${about.port.user.kind} ${about.port.user.name}`), h('span', { class: 'muted' }, ` ${about.port.user.info}`))
      if (about.port.user && this.id === about.port.user.id) add('Port', this.object(about.port.id, about.port.name), h('span', { class: 'muted' }, ` ${about.port.user.info}`))
      for (const f of about.port.floating) {
        if (this.id === f.id) add('Associated with', this.object(about.port.id, about.port.name), h('code', { class: 'muted' }, ` ${f.info}`))
        else add('Floating IP', this.object(f.id, f.name), h('code', { class: 'muted' }, ` ${f.info}`))
      }
    }
    return rows.length ? [h('section', {}, h('h3', {}, 'On the network'), h('dl', {}, rows))] : []
  }

  // cloud shows what only Neutron has.
  cloud(kind, name) {
    const lanes = this.app.lanesOf(this.id)
    if (!lanes.length) return [h('p', { class: 'muted' }, 'It is not on the map any more.')]
    const parts = [h('section', {}, h('h3', {}, 'In the cloud'), h('dl', {}, h('div', {}, h('dt', {}, 'Id'), h('dd', {}, h('code', {}, name)))))]
    const outside = kind === 'router' && lanes[0].reached
    if (outside) {
      parts[0].lastChild.append(
        h('div', {}, h('dt', {}, 'Outside'), h('dd', {}, this.object(`outside/${outside.id}`, outside.id))),
        h('div', {}, h('dt', {}, 'Addresses'), h('dd', {}, h('code', {}, outside.addresses || '–'))))
    }
    parts.push(h('section', {}, h('h3', {}, lanes.length === 1 ? 'Network' : `${number(lanes.length)} Networks`), h('ul', { class: 'links' },
      lanes.slice(0, 200).map((lane) => h('li', {}, icon(lane.worst, words[lane.worst]), this.object(lane.id, lane.key), h('code', { class: 'muted' }, lane.subnets[0]?.cidr ?? ''))))))
    if (lanes.length > 200) parts.push(h('p', { class: 'muted' }, `${number(lanes.length - 200)} more are on the map.`))
    return parts
  }

  events() {
    const events = this.data.events ?? []
    if (!events.length) return [h('p', { class: 'muted' }, 'There are no Events of the last hour or so.')]
    return [h('ol', { class: 'events' }, events.map((e) => h('li', { class: e.type === 'Warning' ? 'warn' : '' },
      icon(e.type === 'Warning' ? 'warn' : 'ok', e.type), h('div', {},
        h('p', {}, h('strong', {}, e.reason), h('span', { class: 'muted' }, e.count > 1 ? ` ${e.count} times, the last ` : ' ', since(e.last), ' ago')),
        h('p', { class: 'message' }, e.message)))))]
  }

  yaml() {
    const block = h('pre', { tabindex: 0, 'aria-label': 'YAML' })
    for (const line of this.data.yaml.split('\n')) {
      const match = /^(\s*(?:- )*)([^\s:][^:]*)(:)(\s.*|)$/.exec(line)
      if (match && !/^["'{]/.test(match[2])) block.append(match[1], h('span', { class: 'y-key' }, match[2]), match[3], h('span', { class: 'y-value' }, match[4]), '\n')
      else block.append(h('span', { class: 'y-value' }, line), '\n')
    }
    return [h('div', { class: 'yaml' }, this.copyButton(() => this.data.yaml, 'Copy the YAML'), block)]
  }

  command(command) {
    return h('div', { class: 'command' }, h('code', {}, command), this.copyButton(() => command, `Copy: ${command}`))
  }

  copyButton(text, label) {
    return h('button', {
      class: 'icon-button copy', type: 'button', 'aria-label': label, title: 'Copy', 'data-focus': `copy-${label}`,
      onclick: async () => { await navigator.clipboard.writeText(text()); this.app.announce('Copied.') },
    }, icon('copy'))
  }

  link(object) {
    const id = object.namespace ? `${object.kind}/${object.namespace}/${object.name}` : ''
    const text = `${object.kind} ${object.namespace ? `${object.namespace}/` : ''}${object.name}`
    return id && id !== this.id && readable.test(id) ? this.object(id, text) : h('span', {}, text)
  }

  object(id, text) {
    return h('a', { href: this.app.linkTo({ sel: id }), 'data-focus': `link-${id}` }, text)
  }
}

const kindWords = { router: 'Router', outside: 'External network', port: 'Port', server: 'Server', NetworkPort: 'NetworkPort' }

// query names an object to the server.
function query(id) {
  const [, kind, namespace, name] = /^([^/]+)\/([^/]+)\/(.+)$/.exec(id)
  return new URLSearchParams({ kind, namespace, name })
}

// since says how long ago a time is, roughly.
function since(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000)
  const text = seconds < 5 ? 'a moment' : seconds < 120 ? `${Math.round(seconds / 5) * 5} seconds` : seconds < 7200 ? `${Math.round(seconds / 60)} minutes`
    : seconds < 172800 ? `${Math.round(seconds / 3600)} hours` : `${Math.round(seconds / 86400)} days`
  return h('time', { datetime: time, title: new Date(time).toLocaleString() }, text)
}
