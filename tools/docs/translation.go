package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// sourcePattern is the comment of a translated page that names its source, and the digest of the source when the
// translation was last compared with it.
var sourcePattern = regexp.MustCompile(`<!-- translation of (\S+) at ([0-9a-f]*) -->`)

// Lagging gives a line for each translated page whose source changed since. It is no error: an author of the source
// need not know the other language.
func Lagging(files fs.FS) ([]string, error) {
	var lagging []string
	err := eachTranslation(files, func(p, source page, is string) error {
		if p.at != is {
			lagging = append(lagging, fmt.Sprintf("%s lags behind %s: translate what changed, then run "+
				"go run ./tools/docs --current=%[1]s", p.path, source.path))
		}
		return nil
	})
	return lagging, err
}

// Current gives the text of a translated page that says that it is as new as its source. It fails if it is not.
func Current(files fs.FS, name string) (text string, err error) {
	err = eachTranslation(files, func(p, source page, is string) error {
		if p.path != name {
			return nil
		}
		text = sourcePattern.ReplaceAllString(p.text, fmt.Sprintf("<!-- translation of %s at %s -->", source.path, is))
		c := checker{}
		c.compare(p, source)
		if c.problems != nil {
			return errors.New(strings.Join(c.problems, "\n"))
		}
		return nil
	})
	if err == nil && text == "" {
		err = fmt.Errorf("%s has no comment <!-- translation of FILE at DIGEST -->", name)
	}
	return text, err
}

func eachTranslation(files fs.FS, do func(p, source page, is string) error) error {
	all, err := pages(files)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.source == "" {
			continue
		}
		source, err := readPage(files, p.source)
		if err != nil {
			return fmt.Errorf("%s is a translation of %s: %w", p.path, p.source, err)
		}
		if err := do(p, source, digest(source)); err != nil {
			return err
		}
	}
	return nil
}

// digest tells versions of a page apart.
func digest(p page) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(p.text)))[:16] }

// checkTranslation notes where a translation uses words that checkWords refuses, which of introduced it lacks, and
// where it links a page that is translated, too. It also notes where a translation differs from its source, unless the
// translation says itself that it lags behind.
func (c *checker) checkTranslation(p page) {
	if p.source == "" {
		return
	}
	for _, b := range p.blocks {
		c.note(p, b.line, checkWords(b.text))
	}
	for _, term := range introduced {
		word, _, _ := strings.Cut(term, "（")
		if strings.Contains(p.text, word) && !strings.Contains(p.text, term) {
			c.note(p, 1, fmt.Sprintf("write %s where %s occurs first", term, word))
		}
	}
	for _, l := range p.links {
		file, _, _ := strings.Cut(l.target, "#")
		name := path.Join(path.Dir(p.path), file)
		if twin := c.translations[name]; file != "" && twin != "" && name != p.source {
			c.note(p, l.line, fmt.Sprintf("the link %s is to the source of %s: link the translation", l.target, twin))
		}
	}
	if source := c.pages[p.source]; p.at == digest(source) {
		c.compare(p, source)
	}
}

var (
	spacePattern   = regexp.MustCompile(`\s+`)
	chinesePattern = regexp.MustCompile(`\p{Han}`)
	// kindPattern matches what has capitals inside, such as StatefulSets. The plural's end is not in the submatch.
	kindPattern = regexp.MustCompile(`\b([A-Z][a-z]+[A-Z][A-Za-z]*?)(?:ies|y|es|s)?\b`)
)

// compare notes where a translation lacks a part of its source or has one more: a heading, row, item or paragraph, or a
// word of code in it, or the name of a kind. Each block of code MUST be one of the source, but for comments and for
// what is drawn in words; some may be missing.
func (c *checker) compare(p, source page) {
	for _, code := range p.code {
		if !chinesePattern.MatchString(code.text) &&
			!slices.ContainsFunc(source.code, func(of block) bool { return of.text == code.text }) {
			c.note(p, code.line, source.path+" has no such block of code: leave commands and outputs as they are there")
		}
	}
	for i := range max(len(p.blocks), len(source.blocks)) {
		at, of := blockAt(p, i), blockAt(source, i)
		if at.kind != of.kind {
			c.note(p, at.line, fmt.Sprintf("this is %s, but %s:%d is %s", at.kind, source.path, of.line, of.kind))
			return // all others would differ, too
		}
	}
	for i, of := range source.blocks {
		at := p.blocks[i]
		words, wanted := codeWords(at.text), codeWords(of.text)
		for _, word := range wanted {
			if !slices.Contains(words, word) {
				c.note(p, at.line, fmt.Sprintf("%s is missing, which %s:%d has", word, source.path, of.line))
			}
		}
		for _, word := range words {
			if !slices.Contains(wanted, word) {
				c.note(p, at.line, fmt.Sprintf("%s:%d does not have %s", source.path, of.line, word))
			}
		}
		for _, kind := range kindPattern.FindAllStringSubmatch(withoutCode(of.text), -1) {
			if !strings.Contains(at.text, kind[1]) {
				c.note(p, at.line, fmt.Sprintf("%s is missing, which %s:%d has", kind[0], source.path, of.line))
			}
		}
	}
}

// blockAt gives a block of a page, or its end.
func blockAt(p page, i int) block {
	if i < len(p.blocks) {
		return p.blocks[i]
	}
	return block{line: strings.Count(p.text, "\n"), kind: "the end"}
}

// codeWords are the words of code in a text.
func codeWords(text string) (words []string) {
	for _, found := range wordPattern.FindAllStringSubmatch(text, -1) {
		words = append(words, "`"+spacePattern.ReplaceAllString(found[1], " ")+"`")
	}
	return words
}

// withoutCode is a text without words of code and without the targets of its links.
func withoutCode(text string) string {
	return linkPattern.ReplaceAllString(wordPattern.ReplaceAllString(text, " "), "] ")
}

// chinese are the words of the Chinese community by those that it does not use, or not for this.
var chinese = map[string]string{
	"应答": "响应", "熔断器断开": "熔断器打开", "通向": "关联（浮动 IP）、通往（路由器）", "排空": "腾空", "名字空间": "命名空间",
	"名称空间": "命名空间", "数据面": "数据平面", "您": "你", "协调": "调谐", "次审计": "定期核对", "定期审计": "定期核对", "审计中": "定期核对",
	"带退避": "按退避间隔重新入队", "带回来": "让 key 重新入队", "没有谁": "没有组件，或没有人",
	"finalizer": "终结器", "finalizers": "终结器", "condition": "状况", "conditions": "状况", "Event": "事件", "Events": "事件",
	"leader": "领导者", "handler": "事件处理函数", "tombstone": "墓碑", "namespace": "命名空间",
}

// introduced are the words of which each page that has them gives the English one once.
var introduced = []string{"终结器（finalizer）", "状况（condition）", "领导者（leader）"}

var (
	latinPattern    = regexp.MustCompile(`[A-Za-z-]+`)
	originalPattern = regexp.MustCompile(`（[A-Za-z ]+）|^\| [A-Za-z ,-]+ \| \p{Han}|[A-Za-z0-9]+( [A-Za-z0-9]+){3,}`)
)

// checkWords gives what is wrong with the words of a Chinese text, or "". An English one may stand in parentheses
// behind the Chinese one, in a row of the glossary before it, and in an English sentence.
func checkWords(text string) string {
	text = originalPattern.ReplaceAllString(withoutCode(text), "")
	latin := latinPattern.FindAllString(text, -1)
	for _, word := range slices.Sorted(maps.Keys(chinese)) {
		if chinesePattern.MatchString(word) && strings.Contains(text, word) || slices.Contains(latin, word) {
			return fmt.Sprintf("do not write %s: write %s", word, chinese[word])
		}
	}
	return ""
}
