// The pages of the site, in the order of its sidebar. tools/docs fails if a page of docs/ is missing here. A folder
// stands for the pages in it.
export default [
  { en: 'Tutorials', zh: '教程', pages: ['README.md', 'docs/tutorial.md', 'docs/demo.md', 'docs/learn/'] },
  { en: 'Tasks', zh: '任务', pages: ['docs/deployment.md', 'docs/policy.md', 'docs/router.md', 'docs/credentials.md', 'docs/onboard.md', 'docs/kubectl-network.md'] },
  { en: 'Concepts', zh: '概念', pages: ['docs/network.md', 'docs/networkport.md', 'docs/securitygroup.md', 'docs/floatingip.md', 'docs/classes.md', 'docs/compare.md'] },
  { en: 'Reference', zh: '参考', pages: ['docs/fields.md', 'docs/flags.md', 'docs/metrics.md', 'charts/network-controller/README.md', 'docs/compatibility.md', 'docs/glossary.md', 'CHANGELOG.md'] },
  { en: 'Operations', zh: '运维', pages: ['docs/install.md', 'docs/day-2.md', 'docs/sizing.md', 'docs/dataplane.md', 'docs/monitoring.md', 'docs/runbooks.md', 'docs/security.md', 'SUPPORT.md', 'SECURITY.md'] },
  { en: 'Internals', zh: '内部原理', pages: ['docs/how-it-works.md', 'docs/reliability.md', 'docs/benchmarks.md', 'docs/foo.md', 'CONTRIBUTING.md', 'RELEASE.md', 'dev/'] },
  { en: 'Decisions', zh: '设计决策', collapsed: true, pages: ['docs/adr/'] },
]
