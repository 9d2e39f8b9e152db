package attachment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// complaint is what a Warning Event is about. One is sent where a complaint begins; after a restart it begins anew.
type complaint struct {
	// network is the Network, and attachment the NetworkAttachmentDefinition that stands in its way, if one does.
	network, attachment types.UID
	reason              string
}

// complain sends a Warning Event to a Network, unless the complaint is already known.
func (c *Controller) complain(
	key cache.ObjectName, network *cloudteamv1.Network, attachment types.UID, reason, message string,
) {
	begun := complaint{network.UID, attachment, reason}
	c.mu.Lock()
	known := c.complaints[key] == begun
	c.complaints[key] = begun
	c.mu.Unlock()
	if !known {
		c.recorder.Event(network, corev1.EventTypeWarning, reason, message)
	}
}

// settle ends the complaint about a key, if there is one.
func (c *Controller) settle(key cache.ObjectName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.complaints, key)
}

// taken is where the Network's name is that of a NetworkAttachmentDefinition that the Network does not control.
func (c *Controller) taken(
	key cache.ObjectName, network *cloudteamv1.Network, attachment *unstructured.Unstructured,
) {
	if isOfNetwork(attachment) {
		// It is that of an earlier Network of the name, and garbage collection is about to remove it.
		c.settle(key)
		return
	}
	whose := "nobody controls it"
	if owner := metav1.GetControllerOfNoCopy(attachment); owner != nil {
		whose = fmt.Sprintf("%s %q controls it", owner.Kind, owner.Name)
	}
	c.complain(key, network, attachment.GetUID(), cloudteamv1.EventAttachmentExists, fmt.Sprintf(
		"NetworkAttachmentDefinition %q exists and is not this Network's (%s), so that Pods that declare the name are not "+
			"plugged into this network: delete it, or make one of the two anew under another name", key.Name, whose))
}

// failed is where the API server did not do what it was asked for. The key is tried again.
func (c *Controller) failed(
	key cache.ObjectName, network *cloudteamv1.Network, err error,
) (controller.Result, error) {
	c.complain(key, network, "", cloudteamv1.EventAttachmentFailed, err.Error()+"; it is tried again")
	return controller.Result{}, err
}
