package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"cloudteam.ztgame.com/network-controller/internal/class"
	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// someNames is how many names an answer lists: anybody may make objects.
const someNames = 10

// some lists the first names, and counts the others.
func some(names []string) string {
	if more := len(names) - someNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:someNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// use is what is known of a class's use.
type use struct {
	// selected are the namespaces that its selector selects; known is false if they cannot be read.
	selected []string
	known    bool
	// counts are for each limit what has how many.
	counts map[string]map[string]int
	// objects counts those of the class, and ready those that are Ready.
	objects, ready int
	// refused are by reason what the class refuses.
	refused map[string][]Link
	// failing is the first object that cannot reach the class's cloud.
	failing *Link
	// secrets is the namespace of the class's Secret.
	secrets string
}

func (u *use) namespaces() string {
	if u == nil || !u.known {
		return ""
	}
	return ": " + cmp.Or(some(u.selected), "there are none")
}

// most says what has the most of a limit.
func (u *use) most(limit string) string {
	if u == nil {
		return ""
	}
	who, most := "", 0
	for _, name := range slices.Sorted(maps.Keys(u.counts[limit])) {
		if has := u.counts[limit][name]; has > most {
			who, most = name, has
		}
	}
	if who == "" {
		return ": there are none"
	}
	return fmt.Sprintf(": %s has the most, %d", who, most)
}

func (u *use) count(limit, of string) {
	if u.counts[limit] == nil {
		u.counts[limit] = map[string]int{}
	}
	u.counts[limit][of]++
}

// unreachable are the reasons of objects whose credentials or cloud do not work.
var unreachable = []string{cloudteamv1.ReasonCredentialsRejected, cloudteamv1.ReasonCredentialsUnavailable,
	cloudteamv1.ReasonCloudUnavailable}

// networkClass explains a NetworkClass: something is wrong with it if its objects cannot reach its cloud. What it
// refuses are warnings, because it is there to refuse, and anybody may ask for what it forbids.
func (w *walk) networkClass(c *cloudteamv1.NetworkClass) (chain []Link, healthy string) {
	u := w.useOf(c)
	for _, reason := range slices.Sorted(maps.Keys(u.refused)) {
		all := u.refused[reason]
		by := map[string]int{}
		for _, l := range all {
			by[l.Object.Namespace]++
		}
		where := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
			return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
		})
		for i, namespace := range where {
			where[i] = fmt.Sprintf("%s (%d)", namespace, by[namespace])
		}
		w.warnings = append(w.warnings, fmt.Sprintf("%s: %d of the objects, in %s. The first is %s: %s", reason, len(all),
			some(where), all[0].Object, all[0].Message))
	}
	says, secret := whatAllows(c, u)+" Its credentials are the controller's own", []Link(nil)
	if from := c.Spec.Credentials; from != nil {
		l := secretLink(ask.New("Secret", u.secrets, from.SecretName), from.Name)
		says, secret = fmt.Sprintf("%s Its credentials are in %s", whatAllows(c, u), l.Object), []Link{l}
	}
	says += fmt.Sprintf("; %d of its %d objects are Ready with them.", u.ready, u.objects)
	if u.failing != nil && u.failing.Reason == cloudteamv1.ReasonCloudUnavailable && u.ready > 0 {
		// One object alone can make a cloud fail, and others of the class are Ready.
		w.warnings = append(w.warnings, fmt.Sprintf("%s: %s: %s", u.failing.Reason, u.failing.Object, u.failing.Message))
		u.failing = nil
	}
	if u.failing == nil {
		return nil, "Nothing is wrong. " + says
	}
	chain = []Link{{Object: Object{Kind: KindNetworkClass, Name: c.Name}, Reason: classSays, Message: says}, *u.failing}
	if u.failing.Reason != cloudteamv1.ReasonCloudUnavailable {
		chain = append(chain, secret...)
	}
	return chain, ""
}

// useOf looks at all objects that the user may see. It reads no Secret: the objects say whether it works.
func (w *walk) useOf(c *cloudteamv1.NetworkClass) *use {
	u := &use{counts: map[string]map[string]int{}, refused: map[string][]Link{}, secrets: ControllerNamespace}
	if c.Spec.NamespaceSelector != nil {
		list, is := ask.List(w.ctx, w.Cluster, Object{Kind: "Namespaces", Name: "(all)"},
			w.Kubernetes.CoreV1().Namespaces().List, metav1.ListOptions{})
		u.known = is == ask.There
		for i := 0; u.known && i < len(list.Items); i++ {
			if n := &list.Items[i]; class.Of(c).Selects(n.Labels) {
				u.selected = append(u.selected, n.Name)
			}
		}
	}
	named := []string{c.Name}
	if all, is := w.allClasses("(all)"); is == ask.There {
		if first := class.Default(all); first != nil && first.Name == c.Name {
			named = append(named, "")
		}
	}
	on := map[types.NamespacedName]bool{}
	for _, kind := range kinds.All { // Networks come before their ports
		objs, is := ask.Objects(w.ctx, w.Cluster, kind, metav1.NamespaceAll)
		if is != ask.There {
			continue
		}
		for _, obj := range objs {
			member := false
			if p, ok := obj.(*cloudteamv1.NetworkPort); ok {
				member = on[p.Network()]
			} else if kind.Class != nil {
				className, cloud, _ := kind.Class(obj)
				member = cloud == nil && slices.Contains(named, className)
			}
			if kind.Name == kinds.Network {
				on[types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}] = member
			}
			u.add(c, obj, kind, member)
		}
	}
	return u
}

// add adds an object. A FloatingIP can be refused by the class of the Network that it leads to: then it is no member,
// and the message names the class.
func (u *use) add(c *cloudteamv1.NetworkClass, obj kinds.Object, kind kinds.Kind, member bool) {
	status, of := kind.Status(obj), ask.Of(obj)
	limited := false
	for _, condition := range status.Conditions {
		reason, l := condition.Reason, link(of, condition)
		waits := condition.Type == cloudteamv1.ConditionReady && condition.Status != metav1.ConditionTrue
		forbids := strings.Contains(condition.Message, class.Of(c).String()+" forbids")
		switch {
		case waits && reason == cloudteamv1.ReasonClassLimitReached && member:
			limited = true
			u.refused[reason] = append(u.refused[reason], l)
		case waits && reason == cloudteamv1.ReasonForbiddenByClass && forbids:
			u.refused[reason] = append(u.refused[reason], l)
		case condition.Type == cloudteamv1.ConditionClassViolated && condition.Status == metav1.ConditionTrue && forbids:
			u.refused[condition.Type] = append(u.refused[condition.Type], l)
		case waits && member && slices.Contains(unreachable, reason) && u.failing == nil:
			u.failing = &l
		}
	}
	if !member {
		return
	}
	u.objects++
	if meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionReady) {
		u.ready++
	}
	from, own := status.Credentials, c.Spec.Credentials
	if from != nil && own != nil && from.SecretName == own.SecretName && from.Namespace != obj.GetNamespace() {
		u.secrets = from.Namespace
	}
	if limited {
		return
	}
	p, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		u.count(kind.Name+ofNamespace, obj.GetNamespace())
		return
	}
	u.count(onNetwork, p.Network().String())
	owner := controller.OwnerOf(p, appsv1.SchemeGroupVersion.WithKind(KindDeployment).GroupKind())
	// Anybody may write any text as the name of an owner.
	if owner != nil && len(validation.IsDNS1123Subdomain(owner.Name)) == 0 {
		u.count(ofDeployment, p.Namespace+"/"+owner.Name+" on "+p.Network().String())
	}
}
