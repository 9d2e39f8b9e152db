// Package bundle makes the one file of a support request, without secrets.
package bundle

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/redact"
)

// maxSize bounds the files of an archive together, in bytes.
const maxSize = 64 << 20

// Archive is what the file will have. The zero value is empty. It is not safe for concurrent use.
type Archive struct {
	// Says begins the index.
	Says []string

	texts  redact.Texts
	files  []file
	size   int
	missed []string
}

// leftOut is what no archive has.
var leftOut = []string{
	"Secrets and ConfigMaps",
	"of Pods, workloads and Services: environment variables, commands, volumes, and annotations of others",
	"what containers wrote, but for the logs of this project's programs",
}

type file struct{ path, content string }

// Add adds a file, without what looks like a secret. The values of the harmless names stay.
func (a *Archive) Add(path, content string, harmless ...string) {
	if a.fits(path, content) { // cleaning takes time
		a.add(path, a.texts.Text(content, harmless...))
	}
}

// add adds a file that has been cleaned.
func (a *Archive) add(path, content string) {
	if content != "" && a.fits(path, content) {
		a.size += len(content)
		a.files = append(a.files, file{path, content})
	}
}

// fits reports whether there is room for a file, and notes if there is not.
func (a *Archive) fits(path, content string) bool {
	fits := a.size+len(content) <= maxSize
	if !fits {
		a.Miss(fmt.Sprintf("%s: the bundle would be larger than %d MiB", path, maxSize>>20))
	}
	return fits
}

// Miss notes what is missing, and why.
func (a *Archive) Miss(why string) { a.missed = append(a.missed, a.texts.Text(text.Plain(why))) }

// Clean removes what looks like a secret from what a pointer is to. JSON has to be able to say it.
func (a *Archive) Clean(to any) error {
	content, err := json.Marshal(to)
	if err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		return err
	}
	if content, err = json.Marshal(a.texts.Value(value)); err != nil {
		return err
	}
	return json.Unmarshal(content, to)
}

// Index says what is in the archive, what is missing, and what was removed.
func (a *Archive) Index() string {
	var out strings.Builder
	to := text.NewPrinter(&out)
	section := func(title string, lines []string) {
		to.Line("\n%s:", title)
		for _, line := range lines {
			to.Hanging("- ", "  ", line)
		}
		if len(lines) == 0 {
			to.Line("- nothing")
		}
	}
	for _, line := range a.Says {
		to.Wrapped("", line)
	}
	to.Line("\nFiles:")
	slices.SortStableFunc(a.files, func(x, y file) int { return cmp.Compare(x.path, y.path) })
	for _, f := range a.files {
		to.Line("%6d KiB  %s", (len(f.content)+1023)>>10, f.path)
	}
	section("Missing", a.missed)
	section("Removed or not read", append(a.texts.Removed(), leftOut...))
	return out.String()
}

// Write writes the archive. Its index.txt is the first file.
func (a *Archive) Write(to io.Writer, now time.Time) error {
	packed := gzip.NewWriter(to)
	files := tar.NewWriter(packed)
	for _, f := range append([]file{{"index.txt", a.Index()}}, a.files...) {
		err := files.WriteHeader(&tar.Header{
			Name: "network-bundle/" + f.path, Mode: 0o600, Size: int64(len(f.content)), ModTime: now, Format: tar.FormatPAX})
		if err == nil {
			_, err = io.WriteString(files, f.content)
		}
		if err != nil {
			return err
		}
	}
	if err := files.Close(); err != nil {
		return err
	}
	return packed.Close()
}
