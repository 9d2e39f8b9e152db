//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// step is a step of the story. Each prints one number, or none.
type step struct {
	// name is what --skip calls it; empty where the story needs it.
	name string
	// needs is the name of the step without which this one cannot be played.
	needs string
	// extra steps are left out by --short, and steps of the emulator in a real cloud.
	extra, emulator bool
	play            func(*story, context.Context) error
}

// steps are in the order of --help. Beside needs, each needs only steps without a name.
var steps = []step{
	{play: (*story).surround},
	{play: (*story).install},
	{play: (*story).create},
	{name: "change", play: (*story).change},
	{name: "drift", play: (*story).drift},
	{name: "mistake", extra: true, play: (*story).mistake},
	{name: "quota", extra: true, emulator: true, play: (*story).fillQuota},
	{name: "lost-answer", extra: true, emulator: true, play: (*story).loseAnswer},
	{name: "pods", play: (*story).deploy},
	{name: "packets", needs: "pods", play: (*story).sendPackets},
	{name: "replace", needs: "pods", play: (*story).replacePod},
	{name: "scale", needs: "pods", play: (*story).scaleDown},
	{needs: "pods", play: (*story).undeploy},
	{play: (*story).remove},
}

// plays says whether a step is part of the story that the options ask for, in a real cloud or the emulator.
func (o options) plays(s step, real bool) bool {
	skipped := func(name string) bool { return name != "" && slices.Contains(o.skip, name) }
	tooMuch := o.short && s.extra || real && s.emulator
	return !tooMuch && !skipped(s.name) && !skipped(s.needs)
}

// checkSkip refuses names that no step has.
func checkSkip(skip []string) error {
	var names []string
	for _, s := range steps {
		if s.name != "" {
			names = append(names, s.name)
		}
	}
	for _, name := range skip {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--skip=%s: no step that can be left out has this name; write %s",
				name, strings.Join(names, ", "))
		}
	}
	return nil
}
