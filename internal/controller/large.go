package controller

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// AnnotationTooLarge marks an object of which the cache has only a part. It is only in caches.
const AnnotationTooLarge = "cloudteam.ztgame.com/too-large"

// TooLarge reports whether the cache has only a part of an object, because the whole takes too much memory. What is
// missing looks as if it were unset, so nobody may act on the spec.
func TooLarge(obj metav1.Object) bool {
	_, marked := obj.GetAnnotations()[AnnotationTooLarge]
	return marked
}

const (
	// MaxKept is the most bytes of memory that a cache keeps of an object whose resources are in Neutron. With as
	// many of everything as the schema admits, and texts of usual length, one takes less.
	MaxKept = 36 << 10
	// MaxMessage is the most bytes of a condition's message.
	MaxMessage = 2 << 10
	// maxDrift is the most bytes of all values in status.drift, and maxValue that of one.
	maxDrift = 4 << 10
	maxValue = 512
)

// LimitStatus cuts what a cloud or many differences can make long in a status. Caches of both replicas keep it.
func LimitStatus(status *cloudteamv1.ResourceStatus) {
	for i, c := range status.Conditions {
		status.Conditions[i].Message = Limited(c.Message, MaxMessage)
	}
	left := maxDrift
	for i := range status.Drift {
		d := &status.Drift[i]
		for _, text := range []*string{&d.Resource, &d.Field, &d.Declared, &d.Actual} {
			*text = Limited(*text, maxValue)
			left -= len(*text)
		}
		if left < 0 {
			status.Drift = append([]cloudteamv1.Drift(nil), status.Drift[:i]...)
			return
		}
	}
}

// Limited cuts a text after a number of bytes.
func Limited(text string, most int) string {
	const cut = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(cut)], "") + cut
}
