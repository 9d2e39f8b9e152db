package kubectl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// oneOfEach are objects of each kind, on which no workload depends.
func oneOfEach() []runtime.Object {
	routed := frontend(2)
	routed.Status.Router = &cloudteamv1.RouterStatus{ID: "64d5e0f7-1f5b-4d38-9f4c-2f6f3b1a7c55"}
	db := webPort("db-0", "192.168.0.4")
	db.OwnerReferences = nil
	group := &cloudteamv1.SecurityGroup{ObjectMeta: named("web")}
	group.Status.SecurityGroupID = "7e1d2c3b-4a59-4687-9b0c-1d2e3f405162"
	address := &cloudteamv1.FloatingIP{ObjectMeta: named("web")}
	address.Status.FloatingIPID, address.Status.Address = "f3a7c0d5-8e1b-4b6a-9d27-4c5e6f708192", "203.0.113.50"
	return []runtime.Object{routed, db, group, address}
}

// uninstalled runs a command, and gives the writes that it sent: "patch floatingips", for example. kept are kinds whose
// objects the API server does not delete.
func uninstalled(t *testing.T, objects []runtime.Object, command string, kept ...string) (out string, code int, sent []string) {
	t.Helper()
	f, printed := factoryOf(t, objects)
	clients := f.clients
	f.clients = func() (kubernetes.Interface, versioned.Interface, error) {
		kube, ours, err := clients()
		ours.(*fake.Clientset).PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			verb, kind := a.GetVerb(), a.GetResource().Resource
			if verb == "patch" || verb == "delete" {
				sent = append(sent, verb+" "+kind)
			}
			if p, is := a.(clienttesting.PatchAction); is && !strings.Contains(string(p.GetPatch()), `"deletionPolicy":"Retain"`) {
				t.Errorf("it patches %s with %s", kind, p.GetPatch())
			}
			return verb == "delete" && slices.Contains(kept, kind), nil, nil
		})
		return kube, ours, err
	}
	c := f.command()
	c.SetContext(t.Context())
	out, code = execute(c, printed, command)
	return out, code, sent
}

func TestUninstallKeepsEachResourceBeforeItDeletesTheObject(t *testing.T) {
	out, code, sent := uninstalled(t, append(oneOfEach(), running()), "uninstall --keep --yes")
	expect.Equal(t, 0, code, "the exit code after\n%s", out)
	expect.Equal(t, []string{
		"patch floatingips", "delete floatingips", "patch networkports", "delete networkports",
		"patch securitygroups", "delete securitygroups", "patch networks", "delete networks",
	}, sent, "what is sent")
	if !strings.Contains(out, "4 objects are gone") || !strings.Contains(out, "203.0.113.50") {
		t.Errorf("it prints\n%s", out)
	}
}

func TestUninstallChangesNothing(t *testing.T) {
	paused := frontend(2)
	paused.Annotations = map[string]string{cloudteamv1.AnnotationPaused: "true"}
	going := frontend(2)
	going.DeletionTimestamp = &metav1.Time{Time: now}
	stopped := running().(*coordinationv1.Lease)
	stopped.Spec.HolderIdentity = nil
	for name, c := range map[string]struct {
		objects []runtime.Object
		command string
		code    int
		says    string
	}{
		"without --keep":              {append(oneOfEach(), running()), "uninstall --yes", 1, "write --keep"},
		"without --yes":               {append(oneOfEach(), running()), "uninstall --keep", 2, "With --yes: 4 objects go, and 6 resources stay"},
		"without objects":             {nil, "uninstall --keep --yes", 0, "There are no objects."},
		"without a controller":        {append(oneOfEach(), stopped), "uninstall --keep --yes", 1, "no controller runs"},
		"while a workload has a port": {append(oneOfEach(), webPort("web-1", "192.168.0.5"), running()), "uninstall --keep --yes", 1, "delete the Deployment first"},
		"while an object is paused":   {[]runtime.Object{paused, running()}, "uninstall --keep --yes", 1, "remove its annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, sent := uninstalled(t, c.objects, c.command)
			expect.Equal(t, c.code, code, "the exit code after\n%s", out)
			if !strings.Contains(out, c.says) || len(sent) > 0 {
				t.Errorf("it sends %q and prints\n%s\nwant %q", sent, out, c.says)
			}
		})
	}
}

// Somebody may write another deletionPolicy before the deletion: what is deleted is what was patched.
func TestUninstallDeletesOnlyWhatItHasPatched(t *testing.T) {
	f, printed := factoryOf(t, []runtime.Object{frontend(2), running()})
	clients, sent := f.clients, []string{}
	f.clients = func() (kubernetes.Interface, versioned.Interface, error) {
		kube, ours, err := clients()
		ours.(*fake.Clientset).PrependReactor("*", "networks", func(a clienttesting.Action) (bool, runtime.Object, error) {
			switch a := a.(type) {
			case clienttesting.PatchAction:
				sent = append(sent, "patch")
				return true, &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "frontend", UID: "u", ResourceVersion: fmt.Sprint(len(sent)),
				}}, nil
			case clienttesting.DeleteAction:
				on := a.GetDeleteOptions().Preconditions
				sent = append(sent, fmt.Sprint("delete ", *on.UID, " ", *on.ResourceVersion))
				if len(sent) == 2 {
					return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "networks"}, "frontend", nil)
				}
			}
			return false, nil, nil
		})
		return kube, ours, err
	}
	c := f.command()
	c.SetContext(t.Context())
	out, code := execute(c, printed, "uninstall --keep --yes")
	expect.Equal(t, 0, code, "the exit code after\n%s", out)
	expect.Equal(t, []string{"patch", "delete u 1", "patch", "delete u 3"}, sent, "what is sent")
}

func TestUninstallSaysWhichObjectDoesNotGo(t *testing.T) {
	waits := frontend(2)
	waits.Status.Conditions = conditions("False", "InUse", "Server db uses the network.")
	out, code, _ := uninstalled(t, []runtime.Object{waits, running()}, "uninstall --keep --yes --timeout 0s", "networks")
	if code != 1 || !strings.Contains(out, "1 Networks are not gone, such as shop/frontend: Server db uses the network.") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
