//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestTheSamplesAreThoseOfTheSteps(t *testing.T) {
	samples, err := loadSamples("../..")
	expect.NoError(t, err)
	for _, field := range []struct {
		kind, want string
		path       []string
	}{
		{"network", networkName, []string{"metadata", "name"}},
		{"network", networkRange, []string{"spec", "cidr"}},
		{"deployment", webName, []string{"metadata", "name"}},
		{"deployment", networkName, []string{"spec", "template", "metadata", "annotations", selection.Annotation}},
	} {
		if got, _, _ := unstructured.NestedString(samples[field.kind].object.Object, field.path...); got != field.want {
			t.Errorf("the %s has %q in %v, want %q", field.kind, got, field.path, field.want)
		}
		if strings.Contains(samples[field.kind].text, "#") {
			t.Errorf("a comment is shown: %s", samples[field.kind].text)
		}
	}
}

func TestSkip(t *testing.T) {
	for sentence, test := range map[string]struct {
		options options
		real    bool
		// want are the numbers of the steps that are left out.
		want []int
	}{
		"all are played":                     {},
		"one is left out":                    {options: options{skip: []string{"drift"}}, want: []int{5}},
		"several are left out":               {options: options{skip: []string{"change", "scale"}}, want: []int{4, 12}},
		"without Pods nothing of theirs":     {options: options{skip: []string{"pods"}}, want: []int{9, 10, 11, 12, 13}},
		"short leaves out three":             {options: options{short: true}, want: []int{6, 7, 8}},
		"a real cloud has no faults":         {real: true, want: []int{7, 8}},
		"short and skip leave out their sum": {options: options{short: true, skip: []string{"drift"}}, want: []int{5, 6, 7, 8}},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got []int
			for i, s := range steps {
				if !test.options.plays(s, test.real) {
					got = append(got, i+1)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("left out are %v, want %v", got, test.want)
			}
		})
	}
}
