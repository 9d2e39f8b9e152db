package why

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// Cluster is what the answers are read from, with the rights of the user. It is for one question.
type Cluster struct {
	Kubernetes kubernetes.Interface
	Networks   versioned.Interface

	// notes say what could not be read.
	notes []string
}

// presence is what a read tells of an object.
type presence int

const (
	there presence = iota
	absent
	hidden // the user may not read it, or the API server does not answer
)

// read gives an object. What cannot be read is noted and not fatal: the rest of the chain may be enough.
func read[T any](c *Cluster, of Object, get func() (T, error)) (T, presence) {
	found, err := get()
	switch {
	case err == nil:
		return found, there
	case noKind(err):
		c.note("The API server does not serve %ss: the CRDs are not installed (kubectl apply -f config/crd/).", of.Kind)
		return found, absent
	case apierrors.IsNotFound(err):
		return found, absent
	case apierrors.IsForbidden(err):
		c.note("You may not read %s. What it says is missing here.", of)
	default:
		c.note("%s cannot be read: %v.", of, err)
	}
	return found, hidden
}

// noKind reports whether the API server does not know the kind at all. Then its answer is no Status of its own.
func noKind(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (c *Cluster) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// gone ends the question when the object that it is about cannot be read.
func gone(of Object, err error) error {
	switch {
	case noKind(err):
		return fmt.Errorf("the API server does not serve %ss: install the CRDs (kubectl apply -f config/crd/)", of.Kind)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s does not exist: check the name, and the namespace (-n)", of)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not read %s: ask for the right \"get\" (docs/security.md lists the roles): %w", of, err)
	}
	return fmt.Errorf("reading %s: %w", of, err)
}
