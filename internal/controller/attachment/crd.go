package attachment

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// Discovery is the part of a discovery client that AwaitCRD needs. It MUST NOT cache, like that of a clientset.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// AwaitCRD waits until the API server serves NetworkAttachmentDefinitions. It checks at once and then after every poll
// interval. A cluster without them is no error; AwaitCRD logs it once. The only error is that of ctx.
func AwaitCRD(ctx context.Context, discovery Discovery, poll time.Duration) error {
	logger := klog.FromContext(ctx).WithValues("controller", Name)
	var toldMissing, toldError bool
	return wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		list, err := discovery.ServerResourcesForGroupVersion(Resource.GroupVersion().String())
		switch {
		case err == nil && slices.ContainsFunc(list.APIResources,
			func(served metav1.APIResource) bool { return served.Name == Resource.Resource }):
			return true, nil
		case err != nil && !apierrors.IsNotFound(err):
			if !toldError {
				toldError = true
				logger.Info("Cannot tell yet whether NetworkAttachmentDefinitions are installed", "err", err)
			}
		case !toldMissing:
			toldMissing = true
			logger.Info("NetworkAttachmentDefinitions are not installed: the controller begins when they are. Multus "+
				"brings them; without it there is nothing to do", "every", poll)
		}
		return false, nil
	})
}
