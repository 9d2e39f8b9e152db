// From what the server sends, the trees of kubectl network tree, to what the views draw.

// Words of the state of an object. They stand beside the icons, for those who do not see colours.
export const words = { ok: 'Ready', warn: 'Needs attention', wait: 'Not handled yet', bad: 'Not ready' }

const order = { bad: 3, warn: 2, wait: 1, ok: 0 }
const worse = (a, b) => (order[b] > order[a] ? b : a)

function stateOf(node) {
  if (node.problem) return node.problem === 'NotSeen' ? 'wait' : 'bad'
  return node.warning ? 'warn' : 'ok'
}

const split = (name) => {
  const at = name.indexOf('/')
  return at < 0 ? ['', name] : [name.slice(0, at), name.slice(at + 1)]
}

// The colours of lanes. White text on each has a contrast of at least 4.5.
const colours = ['#3451d1', '#0f766e', '#7a3fd0', '#0b6bb3', '#a8326f', '#2f7a34', '#a34d0b', '#52617a', '#0e7085', '#8a3ea8']

function colourOf(key) {
  let hash = 2166136261
  for (const c of key) hash = Math.imul(hash ^ c.codePointAt(0), 16777619)
  return colours[(hash >>> 0) % colours.length]
}

function portOf(node) {
  const children = node.children ?? []
  const user = children.find((c) => c.kind !== 'FloatingIP')
  const floating = children.filter((c) => c.kind === 'FloatingIP').map((c) => ({
    id: `${c.kind}/${c.name}`, name: split(c.name)[1], info: c.info ?? '', problem: c.problem ?? '',
  }))
  // A FloatingIP that does not lead to the port has no place of its own on the map.
  const warning = node.warning || floating.find((f) => f.problem)?.problem || ''
  const [ns, name] = node.kind === 'NetworkPort' ? split(node.name) : ['', node.name]
  return {
    id: `${node.kind}/${node.name}`, kind: node.kind, ns, name, info: node.info ?? '', problem: node.problem ?? '',
    warning, state: stateOf({ ...node, warning }), floating,
    user: user && { id: `${user.kind}/${user.name}`, kind: user.kind, name: split(user.name)[1], info: user.info ?? '' },
    hay: [node.name, node.info, node.problem, warning, user?.name, user?.info, ...floating.flatMap((f) => [f.name, f.info])]
      .join(' ').toLowerCase(),
  }
}

// isOf reports whether an id is a port's, or that of its user or of a FloatingIP that leads to it.
export const isOf = (port, id) => port.id === id || port.user?.id === id || port.floating.some((f) => f.id === id)

// laneOf makes the lane of a Network from its tree.
export function laneOf(entry) {
  const root = entry.tree
  const [ns, name] = split(root.name)
  const lane = {
    key: entry.key, id: `Network/${entry.key}`, ns, name, neutronID: root.info ?? '', problem: root.problem ?? '',
    warning: root.warning ?? '', state: stateOf(root), colour: colourOf(entry.key), router: null, outside: null, reached: null,
    subnets: [], loose: [], ports: [],
  }
  const walk = (node, routed) => {
    switch (node.kind) {
      case 'outside':
        lane.outside = { id: node.name, addresses: node.info ?? '', hay: `${node.name} ${node.info ?? ''}`.toLowerCase() }
        break
      case 'router':
        lane.router = { id: node.name, info: node.info ?? '' }
        routed = true
        break
      case 'subnet': {
        const ports = (node.children ?? []).map(portOf)
        lane.subnets.push({
          cidr: node.name, gateway: /gateway (\S+?)(,|$)/.exec(node.info ?? '')?.[1] ?? '', used: node.used, total: node.total,
          routed, ports,
        })
        lane.ports.push(...ports)
        return
      }
      default: {
        const port = portOf(node)
        lane.loose.push(port)
        lane.ports.push(port)
        return
      }
    }
    for (const child of node.children ?? []) walk(child, routed)
  }
  for (const child of root.children ?? []) walk(child, false)
  lane.worst = lane.ports.reduce((worst, port) => worse(worst, port.state), lane.state)
  lane.bad = lane.ports.filter((port) => port.state === 'bad').length
  const counted = lane.subnets.filter((s) => s.total !== undefined && s.used !== undefined)
  if (counted.length) {
    lane.used = counted.reduce((sum, s) => sum + s.used, 0)
    lane.total = counted.reduce((sum, s) => sum + s.total, 0)
  }
  lane.hay = [entry.key, root.info, root.problem, root.warning, lane.router?.id,
    ...lane.subnets.map((s) => s.cidr)].join(' ').toLowerCase()
  return lane
}

// reach sets what each lane reaches outside. A Network behind another one's router does not say it itself.
export function reach(lanes) {
  const beyond = new Map(lanes.filter((l) => l.router && l.outside).map((l) => [l.router.id, l.outside]))
  for (const lane of lanes) lane.reached = lane.outside ?? beyond.get(lane.router?.id) ?? null
}

// found reports whether a lane, or a port on it, has all words of a search.
export function found(lane, search) {
  return search.every((word) => lane.hay.includes(word) || lane.reached?.hay.includes(word) ||
    lane.ports.some((port) => port.hay.includes(word)))
}

// portFound reports whether a port itself is what a search is for.
export const portFound = (port, search) => search.length > 0 && search.some((word) => port.hay.includes(word))

// sectionsOf orders lanes as they hang together: by the external network, then by the router, then by name.
export function sectionsOf(lanes) {
  const sections = new Map()
  for (const lane of lanes) {
    const { reached } = lane
    const outside = reached?.id ?? (lane.router ? '~router' : '~none')
    if (!sections.has(outside)) sections.set(outside, { id: outside, outside: reached, groups: new Map() })
    const { groups } = sections.get(outside)
    const router = lane.router?.id ?? ''
    if (!groups.has(router)) groups.set(router, { router: lane.router, outside: reached, lanes: [] })
    groups.get(router).lanes.push(lane)
  }
  const rank = (id) => (id === '~none' ? 2 : id === '~router' ? 1 : 0)
  return [...sections.values()].sort((a, b) => rank(a.id) - rank(b.id) || (a.id < b.id ? -1 : 1)).map((section) => ({
    ...section,
    groups: [...section.groups.values()].sort((a, b) => (a.lanes[0].key < b.lanes[0].key ? -1 : 1)),
  }))
}
