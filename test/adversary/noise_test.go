package adversary

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// noises are what one namespace does to the others, with how many objects in virtual time and by night, with processes.
// Each makes the objects and returns what a client then does again and again; nil for nothing.
var noises = map[string]struct {
	virtual, nightly int
	begin            func(w *world, who *tenant, n int) (again func(ctx context.Context, i int) error)
}{
	"Networks that wait": {300, 1500, func(_ *world, who *tenant, n int) func(context.Context, int) error {
		for i := range n {
			who.network(fmt.Sprint("noise-", i), "10.79.0.0/24", "10.79.0.1", func(spec *cloudteamv1.NetworkSpec) {
				spec.QoSPolicy = fmt.Sprint("absent-", i)
			})
		}
		return nil
	}},
	"FloatingIPs that wait for a limit, come and go": {300, 6000,
		func(w *world, who *tenant, n int) func(context.Context, int) error {
			class := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: "noise-" + string(uuid.NewUUID())[:8]}}
			class.Annotations = map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
			class.Spec.AllowedFields = []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP}
			class.Spec.Limits = &cloudteamv1.ClassLimits{FloatingIPsPerNamespace: new(int32(1))}
			classes := w.Networks.CloudteamV1().NetworkClasses()
			harness.Create(w.t, classes, class)
			w.t.Cleanup(func() { harness.Delete(w.t, classes, class.Name) })
			if !virtualTime { // where RBAC says who may use a class
				allow(w, class.Name)
			}
			floating := who.networks.CloudteamV1().FloatingIPs(who.name)
			create := func(ctx context.Context, i int) error {
				f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("noise-", i)}}
				f.Spec.ExternalNetwork = "absent"
				_, err := floating.Create(ctx, f, metav1.CreateOptions{})
				return err
			}
			w.Eventually(w.t, func() error { return create(w.t.Context(), 0) }) // the API server hears of the right
			for i := 1; i < n; i++ {
				expect.NoError(w.t, create(w.t.Context(), i))
			}
			return func(ctx context.Context, i int) error {
				if err := floating.Delete(ctx, fmt.Sprint("noise-", i), metav1.DeleteOptions{}); err != nil {
					return err
				}
				return create(ctx, n+i)
			}
		}},
	"a SecurityGroup that many ports name comes and goes": {300, 1500,
		func(_ *world, who *tenant, n int) func(context.Context, int) error {
			who.network("net", "10.64.0.0/12", "10.64.0.1")
			ports := who.networks.CloudteamV1().NetworkPorts(who.name)
			for i := range n {
				port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("noise-", i)}}
				port.Spec.NetworkName, port.Spec.SecurityGroupRefs = "net", []string{"g"}
				harness.Create(who.t, ports, port)
			}
			groups := who.networks.CloudteamV1().SecurityGroups(who.name)
			return func(ctx context.Context, _ int) error {
				group := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
				_, err := groups.Create(ctx, group, metav1.CreateOptions{})
				switch {
				case apierrors.IsAlreadyExists(err): // its deletion waits for Neutron
					return sleep(ctx, 10*time.Millisecond)
				case err != nil:
					return err
				}
				if err := sleep(ctx, 100*time.Millisecond); err != nil {
					return err
				}
				return groups.Delete(ctx, group.Name, metav1.DeleteOptions{})
			}
		}},
}

// sleep lets time pass, unless a context ends meanwhile.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// allow lets everybody use a class, until the test ends.
func allow(w *world, class string) {
	roles, bindings := w.Kube.RbacV1().ClusterRoles(), w.Kube.RbacV1().ClusterRoleBindings()
	harness.Create(w.t, roles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: class},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{cloudteamv1.SchemeGroupVersion.Group}, Verbs: []string{"use"},
			Resources: []string{"networkclasses"}, ResourceNames: []string{class}}}})
	harness.Create(w.t, bindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: class},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: class},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	})
	w.t.Cleanup(func() {
		harness.Delete(w.t, bindings, class)
		harness.Delete(w.t, roles, class)
	})
}

// TestANoisyNeighbourSlowsNobody has one namespace make noise, and measures what another's Network takes to become
// Ready. In virtual time it waits for its own calls, and not for others' turns. By night, with processes, it also waits
// for what the controller computes, and the leader keeps its Lease. ADVERSARY_NOISE is another number of objects.
func TestANoisyNeighbourSlowsNobody(t *testing.T) {
	if !virtualTime {
		nightly.Only(t, "it compares how long Networks take")
	}
	for sentence, noise := range noises {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				n, since, least := noise.virtual, virtual.Since, time.Duration(0)
				if !virtualTime {
					n, least = noise.nightly, 300*time.Millisecond
					since = time.Since //nolint:forbidigo // it runs by night only
				}
				if text := os.Getenv("ADVERSARY_NOISE"); text != "" {
					var err error
					if n, err = strconv.Atoi(text); err != nil {
						t.Fatalf("ADVERSARY_NOISE: %v", err)
					}
				}
				w := newWorld(t, "--leader-elect=true")
				attacker, bystander := w.newTenant(), w.newTenant()
				made := 0
				median := func() time.Duration {
					var took []time.Duration
					for range 7 {
						made++
						name, began := fmt.Sprint("net-", made), time.Now()
						bystander.network(name, fmt.Sprintf("10.78.%d.0/24", made), fmt.Sprintf("10.78.%d.1", made))
						bystander.awaitReady(name)
						took = append(took, since(began))
					}
					slices.Sort(took)
					return took[len(took)/2]
				}
				idle := median()
				again := noise.begin(w, attacker, n)
				ctx, stop := context.WithCancel(t.Context())
				var client sync.WaitGroup
				if again != nil {
					client.Go(func() {
						for i := 0; i < n && ctx.Err() == nil; i++ {
							if err := again(ctx, i); err != nil && ctx.Err() == nil {
								t.Error(err)
								return
							}
						}
					})
				}
				busy := median()
				stop()
				client.Wait()
				t.Logf("a Network is Ready after %s beside %d of another namespace's objects, and after %s when all is quiet", busy, n, idle)
				if busy > max(2*idle, least) {
					t.Errorf("%s is more than twice as long as %s", busy, idle)
				}
				select {
				case <-w.process.Done():
					t.Error("the leader has ended")
				default:
				}
			})
		})
	}
}
