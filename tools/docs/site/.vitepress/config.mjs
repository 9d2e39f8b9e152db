import fs from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'
import { fileURLToPath } from 'node:url'

const here = path.dirname(fileURLToPath(import.meta.url))

const { version, en, zh } = JSON.parse(fs.readFileSync(path.join(here, 'site.json'), 'utf8'))
const page = (text, link) => ({ text, link })

// slugify gives a heading the anchor that GitHub gives it, as in tools/docs/page.go.
const slugify = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')

// Chinese has no spaces between words.
function tokenize(text) {
  const words = new Intl.Segmenter('zh', { granularity: 'word' }).segment(text)
  return Array.from(words, (word) => word.segment.trim()).filter((word) => /[\p{L}\p{N}]/u.test(word))
}

// For a site below a path: DOCS_BASE=/network-controller/ make docs
const base = process.env.DOCS_BASE ?? '/'
// The site that has all versions, as hack/docs.sh builds it: the first at its path, the others in folders of their names.
const site = process.env.DOCS_SITE ?? base
const versions = (process.env.DOCS_VERSIONS ?? version).trim().split(/ +/)
  .map((name, i) => ({ name, path: i ? name + '/' : '' }))

export default defineConfig({
  base,
  head: [['link', { rel: 'icon', href: base + 'icon.svg' }]],
  title: 'network-controller',
  description: 'A Kubernetes controller for OpenStack Neutron',
  srcDir: 'pages',
  outDir: '../../../dist/docs',
  metaChunk: true,
  ignoreDeadLinks: 'localhostLinks',
  markdown: {
    anchor: { slugify },
    languageAlias: { promql: 'text', cel: 'text' }, // Shiki has no grammar of these.
    config(md) {
      md.renderer.rules.code_inline = (tokens, i) => `<code v-pre>${md.utils.escapeHtml(tokens[i].content)}</code>`
      const fence = md.renderer.rules.fence
      md.renderer.rules.fence = (tokens, i, ...rest) => tokens[i].info.trim() === 'mermaid'
        ? `<Diagram code="${encodeURIComponent(tokens[i].content)}" />`
        : fence(tokens, i, ...rest)
    },
  },
  // Mermaid is large. Pages with a diagram load it, and no others.
  vite: { build: { chunkSizeWarningLimit: 2000 } },
  themeConfig: {
    outline: [2, 3],
    versions: { site, current: base.slice(site.length), versions },
    search: {
      provider: 'local',
      options: {
        detailedView: true,
        miniSearch: { options: { tokenize } },
        locales: { zh: { translations: {
          button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
          modal: {
            displayDetails: '显示详情', resetButtonTitle: '清空', backButtonTitle: '返回', noResultsText: '没有结果：',
            footer: { selectText: '打开', navigateText: '移动', closeText: '关闭' },
          },
        } } },
      },
    },
  },
  locales: {
    root: {
      label: 'English', lang: 'en',
      themeConfig: {
        sidebar: en,
        nav: [page('Tutorial', '/tutorial'), page('Install', '/install'), page('Fields', '/fields'), { component: 'Versions' }],
      },
    },
    zh: {
      label: '简体中文', lang: 'zh-CN', description: '面向 OpenStack Neutron 的 Kubernetes 控制器',
      themeConfig: {
        sidebar: zh,
        nav: [page('教程', '/zh/tutorial'), page('安装', '/zh/install'), page('字段', '/fields'), { component: 'Versions' }],
        outline: { label: '本页内容', level: [2, 3] },
        docFooter: { prev: '上一页', next: '下一页' },
        darkModeSwitchLabel: '外观', lightModeSwitchTitle: '切换到浅色', darkModeSwitchTitle: '切换到深色',
        sidebarMenuLabel: '目录', returnToTopLabel: '回到顶部', langMenuLabel: '语言', skipToContentLabel: '跳到正文',
      },
    },
  },
})
