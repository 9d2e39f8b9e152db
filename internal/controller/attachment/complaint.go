package attachment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// complaint identifies a Warning Event. The Event is sent when the problem begins, and again after a restart.
type complaint struct {
	// network is the Network. attachment is the NetworkAttachmentDefinition that blocks it, if any.
	network, attachment types.UID
	reason              string
}

// complain sends a Warning Event about a Network, unless it already sent one for the same complaint.
func (c *Controller) complain(
	key cache.ObjectName, network *cloudteamv1.Network, attachment types.UID, reason, message string,
) {
	begun := complaint{network.UID, attachment, reason}
	if was, _ := c.complaints.Swap(key, begun); was != begun {
		c.recorder.Event(network, corev1.EventTypeWarning, reason, message)
	}
}

// taken reports that another owner has a NetworkAttachmentDefinition with the Network's name.
func (c *Controller) taken(
	key cache.ObjectName, network *cloudteamv1.Network, attachment *unstructured.Unstructured,
) {
	if isOfNetwork(attachment) {
		// It belongs to an earlier Network of the same name. Garbage collection deletes it.
		c.complaints.Delete(key)
		return
	}
	whose := "nobody controls it"
	if owner := metav1.GetControllerOfNoCopy(attachment); owner != nil {
		whose = fmt.Sprintf("%.63s %.253q controls it", owner.Kind, owner.Name)
	}
	c.complain(key, network, attachment.GetUID(), cloudteamv1.EventAttachmentExists, fmt.Sprintf(
		"NetworkAttachmentDefinition %q exists and is not this Network's (%s); Pods that declare the name are not "+
			"plugged into this network: delete it, or create one of the two again under another name", key.Name, whose))
}
