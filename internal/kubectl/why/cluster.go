package why

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
)

// Object names what says something in an Answer.
type Object = ask.Object

// gone ends the question when the object that it is about cannot be read.
func gone(of Object, err error) error {
	switch {
	case ask.NoKind(err):
		return fmt.Errorf("the API server does not serve %ss: install the CRDs (%s)", of.Kind, crd.Install)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s does not exist: check the name, and the namespace (-n)", of)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not read %s: ask for the right \"get\" (docs/security.md lists the roles): %w", of, err)
	}
	return fmt.Errorf("reading %s: %w", of, err)
}
