package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"regexp"
)

// sourcePattern is the comment of a translated page that names its source, and the digest of the source when the
// translation was last compared with it.
var sourcePattern = regexp.MustCompile(`<!-- translation of (\S+) at ([0-9a-f]*) -->`)

// Lagging gives a line for each translated page whose source changed since. It is no error: an author of the source
// need not know the other language.
func Lagging(files fs.FS) ([]string, error) {
	var lagging []string
	err := eachTranslation(files, func(p page, source, was, is string) error {
		if was != is {
			lagging = append(lagging, fmt.Sprintf("%s lags behind %s: translate what changed, then run "+
				"go run ./tools/docs --current=%[1]s", p.path, source))
		}
		return nil
	})
	return lagging, err
}

// Current gives the text of a translated page that says that it is as new as its source.
func Current(files fs.FS, name string) (text string, err error) {
	err = eachTranslation(files, func(p page, source, _, is string) error {
		if p.path == name {
			text = sourcePattern.ReplaceAllString(p.text, fmt.Sprintf("<!-- translation of %s at %s -->", source, is))
		}
		return nil
	})
	if err == nil && text == "" {
		err = fmt.Errorf("%s has no comment <!-- translation of FILE at DIGEST -->", name)
	}
	return text, err
}

func eachTranslation(files fs.FS, do func(p page, source, was, is string) error) error {
	all, err := pages(files)
	if err != nil {
		return err
	}
	for _, p := range all {
		found := sourcePattern.FindStringSubmatch(p.text)
		if found == nil {
			continue
		}
		content, err := fs.ReadFile(files, found[1])
		if err != nil {
			return fmt.Errorf("%s is a translation of %s: %w", p.path, found[1], err)
		}
		if err := do(p, found[1], found[2], fmt.Sprintf("%x", sha256.Sum256(content))[:16]); err != nil {
			return err
		}
	}
	return nil
}
