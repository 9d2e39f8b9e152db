//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// sample is the manifest of one object: its path below the repository's root, its text without comments, and what it
// says.
type sample struct {
	path, text string
	object     *unstructured.Unstructured
}

// kinds are the kinds whose objects the story applies.
var kinds = map[string]schema.GroupVersionResource{"network": networkKind, "deployment": deploymentKind}

// story is the life of one Network, and of a Deployment on it.
type story struct {
	*surroundings
	samples map[string]sample
	// uids are those of what was applied, by kind; generation is that of the Network's spec.
	uids       map[string]types.UID
	generation int64
	// clusterUID is what the marks in Neutron name the cluster by.
	clusterUID string
	marks      marks
	// seen is what was shown of Neutron last, and changed what was changed by hand.
	seen, changed picture
	// pods and ports are the Deployment's Pods, and what Neutron has of theirs. before are the Pods of the step before.
	pods, before attachments
	ports        []resource
	// copied is the mark of the Network that was applied under another name; it is Ready for the reason.
	copied string
	reason metav1.Condition
	events []corev1.Event
	// began is when the last command was given whose effect is timed.
	began time.Time
	// deleted says that the Network is gone, and its network with it.
	deleted bool
}

// beat is a command of the story, or what is expected of it.
type beat func(context.Context, *story) error

// show tells the whole story. It returns nil when every step came true.
func show(ctx, hurry context.Context, o options, n *narrator) (err error) {
	began := time.Now()
	n.title("network-controller: one Network in Kubernetes and OpenStack Neutron")
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	around, err := newSurroundings(o, n, fail)
	if err != nil {
		n.bad(err)
		return err
	}
	s := &story{surroundings: around, uids: map[string]types.UID{}}
	defer func() {
		if errors.Is(err, errInterrupted) {
			n.warn("\nInterrupted; stopping all processes")
		}
		if err = s.end(hurry, err, s.tidy(hurry)); err == nil {
			took := time.Since(began).Seconds()
			n.title(fmt.Sprintf("\nAll steps succeeded; all processes have stopped. %.1f s.", took))
			n.say("make run leaves it running, with a page that shows the controller from inside.")
		}
	}()
	for i, step := range steps {
		if !o.plays(step, s.real) {
			continue
		}
		n.steps = i // the numbers are those of --help, whatever was left out
		if !step.own {
			n.step(step.title, strings.ReplaceAll(step.why, "%s", o.auditInterval.String()))
		}
		for _, beat := range step.beats {
			if err := or(ctx, beat(ctx, s)); err != nil {
				return err
			}
		}
	}
	return nil
}

func surround(ctx context.Context, s *story) error {
	err := s.start(ctx)
	if err == nil {
		s.samples, err = loadSamples(s.root)
	}
	if err != nil {
		return err
	}
	s.introduce()
	if s.real {
		s.n.warn("This is a real cloud. The demo creates one network named %s with the subnet %s and a few\n"+
			"ports, changes them, and deletes them. It touches nothing else.", networkName, networkRange)
	} else {
		s.n.say("The emulator answers like a real Keystone and Neutron. --cloud=NAME uses your own cloud.")
	}
	system, err := s.cluster.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	s.clusterUID = string(system.GetUID())
	return err
}

// loadSamples reads the manifests that the demo applies, by their kinds.
func loadSamples(root string) (map[string]sample, error) {
	samples := map[string]sample{}
	for kind := range kinds {
		path := filepath.Join("config", "samples", kind+".yaml")
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, fmt.Errorf("%w: run bin/demo from a whole checkout of the repository", err)
		}
		objects, err := readObjects(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		var lines []string
		for line := range strings.Lines(string(content)) {
			if bare := strings.TrimSpace(line); bare != "" && bare != "---" && !strings.HasPrefix(bare, "#") {
				lines = append(lines, line)
			}
		}
		samples[kind] = sample{path, strings.Join(lines, ""), objects[0]}
	}
	return samples, nil
}

// objects are the objects of a kind in the namespace of the story.
func (s *story) objects(kind string) dynamic.ResourceInterface {
	return s.cluster.dynamic.Resource(kinds[kind]).Namespace(metav1.NamespaceDefault)
}

// since is the time since the last command whose effect is timed.
func (s *story) since() string { return fmt.Sprintf("%.1f s", time.Since(s.began).Seconds()) }

func install(ctx context.Context, s *story) error { return s.install(ctx) }

func complete(ctx context.Context, s *story) error { return s.awaitComplete(ctx) }

// say prints a line.
func say(line string) beat {
	return func(_ context.Context, s *story) error {
		s.n.say("%s", line)
		return nil
	}
}

// command prints a command that waits for what the next beat does.
func command(line string) beat {
	return func(_ context.Context, s *story) error {
		s.n.command(line)
		return nil
	}
}

// good says what came true.
func good(what func(*story) string) beat {
	return func(_ context.Context, s *story) error {
		s.n.good("%s", what(s))
		return nil
	}
}

func text(line string) func(*story) string { return func(*story) string { return line } }

// same is an error unless the values are.
func same(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s is %s, not %s", what, got, want)
	}
	return nil
}

// cat shows a sample.
func cat(kind string) beat {
	return func(_ context.Context, s *story) error {
		s.n.command("cat " + s.samples[kind].path)
		s.n.say("%s", s.samples[kind].text)
		return nil
	}
}

// apply creates a sample's object, and refuses where there is one of its name already.
func apply(kind string) beat {
	return func(ctx context.Context, s *story) error {
		sample := s.samples[kind]
		name := sample.object.GetName()
		if _, err := s.objects(kind).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(err, fmt.Errorf("there is a %s %s in %s already, and the demo touches only what it made: "+
				"delete it (bin/demo --stay --dir=%[3]s, and kubectl delete %[1]s %[2]s), or name another --dir",
				kind, name, s.dir))
		}
		s.n.command("kubectl apply -f " + sample.path)
		// Ctrl-C does not break off the call: an object whose UID is not known could not be tidied up.
		whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepPatience)
		defer cancel()
		applied, err := s.objects(kind).Apply(whole, name, sample.object, metav1.ApplyOptions{FieldManager: fieldManager})
		if err != nil {
			return fmt.Errorf("applying %s: %w", sample.path, err)
		}
		s.uids[kind] = applied.GetUID()
		if kind == "network" {
			s.generation = applied.GetGeneration()
			owner := plan.Owner{Cluster: s.clusterUID, Object: string(applied.GetUID())}
			s.marks = marks{network: owner.Describe(description(sample)), subnet: owner.Marker()}
		}
		return nil
	}
}

// description is the user's part of what the network's description will be in Neutron.
func description(of sample) string {
	text, _, _ := unstructured.NestedString(of.object.Object, "spec", "description")
	return text
}

// patch merges a patch into the Network.
func patch(merged string) beat {
	return func(ctx context.Context, s *story) error {
		s.n.command("kubectl patch network " + networkName + " --type=merge -p '" + merged + "'")
		is, err := s.objects("network").Patch(ctx, networkName, types.MergePatchType, []byte(merged),
			metav1.PatchOptions{FieldManager: fieldManager})
		if err == nil {
			s.generation = is.GetGeneration()
		}
		return err
	}
}

// applyCopy applies the sample of a Network under another name.
func applyCopy(name string) beat {
	return func(ctx context.Context, s *story) error {
		sample := s.samples["network"]
		s.n.command(fmt.Sprintf("sed 's/%s/%s/' %s | kubectl apply -f -", networkName, name, sample.path))
		object := sample.object.DeepCopy()
		object.SetName(name)
		is, err := s.objects("network").Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: fieldManager})
		if err == nil {
			s.copied = plan.Owner{Cluster: s.clusterUID, Object: string(is.GetUID())}.Describe(description(sample))
		}
		return err
	}
}

// mistake applies a range with host bits set, as a dry run, and shows what the API server answers.
func mistake(ctx context.Context, s *story) error {
	sample := s.samples["network"]
	s.n.command(fmt.Sprintf("sed 's|%s|%s|' %s | kubectl apply -f -", networkRange, mistakenRange, sample.path))
	object := sample.object.DeepCopy()
	if err := unstructured.SetNestedField(object.Object, mistakenRange, "spec", "cidr"); err != nil {
		return err
	}
	_, err := s.objects("network").Apply(ctx, networkName, object,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("expected: the API server refuses the range %s. Its answer: %w", mistakenRange, err)
	}
	s.n.say("The %s", err.Error())
	return nil
}

// remove asks for the deletion of an object that the demo made, and of no other that bears its name.
func remove(kind, name string) beat {
	return func(ctx context.Context, s *story) error {
		s.n.command("kubectl delete " + kind + " " + name)
		return s.delete(ctx, kind, name)
	}
}

func (s *story) delete(ctx context.Context, kind, name string) error {
	options := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if s.samples[kind].object.GetName() == name {
		options.Preconditions = &metav1.Preconditions{UID: new(s.uids[kind])}
	}
	err := s.objects(kind).Delete(ctx, name, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// gone waits until an object is gone.
func gone(kind, name string) beat {
	return func(ctx context.Context, s *story) error { return s.awaitGone(ctx, kind, name, stepPatience) }
}

func (s *story) awaitGone(ctx context.Context, kind, name string, patience time.Duration) error {
	return await(ctx, patience, "the "+kind+" "+name+" is gone", func(ctx context.Context) error {
		object, err := s.objects(kind).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("its status is %v", object.UnstructuredContent()["status"]))
	})
}

// ready waits until the Network is Ready at the generation of its spec, and prints its row each time that it changes.
func ready(ctx context.Context, s *story) error {
	s.n.command("kubectl get network " + networkName + " -o wide --watch")
	return s.awaitState(ctx, networkName, &tablePrinter{wide: true}, func(is metav1.Condition) bool {
		return is.ObservedGeneration == s.generation && is.Status == metav1.ConditionTrue
	})
}

// reason waits until a Network's condition Ready has a reason, and prints the row of that time.
func reason(name, want string) beat {
	return func(ctx context.Context, s *story) error {
		s.n.command("kubectl get network " + name)
		err := s.awaitState(ctx, name, nil, func(is metav1.Condition) bool { return is.Reason == want })
		if err != nil {
			return err
		}
		table, err := s.cluster.networkTable(ctx, metav1.NamespaceDefault, name)
		if err != nil {
			return err
		}
		return s.table(table)
	}
}

// awaitState waits until a Network's condition Ready is as wanted, and prints its row meanwhile if there is a printer.
func (s *story) awaitState(
	ctx context.Context, name string, printer *tablePrinter, wanted func(metav1.Condition) bool,
) error {
	expected := "Network " + name + " is in the state that the step is about"
	return await(ctx, stepPatience, expected, func(ctx context.Context) error {
		network, err := s.cluster.networks.CloudteamV1().Networks(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if printer != nil {
			// Read after the object, the row is never older than what is judged.
			table, err := s.cluster.networkTable(ctx, metav1.NamespaceDefault, name)
			if err != nil {
				return err
			}
			if lines := printer.render(table); len(lines) > 0 {
				s.n.say("%s", strings.Join(lines, "\n"))
			}
		}
		is := meta.FindStatusCondition(network.Status.Conditions, cloudteamv1.ConditionReady)
		if is == nil || !wanted(*is) {
			return fmt.Errorf("its conditions are %v", network.Status.Conditions)
		}
		s.reason = *is
		return nil
	})
}

func showReason(_ context.Context, s *story) error {
	s.n.say("%s: %s", s.reason.Reason, s.reason.Message)
	return nil
}

// table prints a table.
func (s *story) table(table *metav1.Table) error {
	s.n.say("%s", strings.Join(new(tablePrinter).render(table), "\n"))
	return nil
}

// neutron shows what Neutron has of the Network, once it satisfies the check; nil is satisfied by anything.
func neutron(check func(*story, picture) error) beat {
	return func(ctx context.Context, s *story) error {
		var is picture
		err := await(ctx, stepPatience, "Neutron has what is declared", func(ctx context.Context) (err error) {
			if is, err = s.cloud.picture(ctx, s.marks); err == nil && check != nil {
				err = check(s, is)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.n.command(osc.ShowNetwork(is.network.id()) + "; " + osc.ShowSubnet(is.subnet.id()))
		s.see(is)
		return nil
	}
}

// see prints a picture and what in it is other than what was shown before.
func (s *story) see(p picture) {
	s.n.say("%s", strings.Join(p.render(s.seen), "\n"))
	s.seen = p
}

// byHand changes the network or its subnet behind the controller's back.
func byHand(kind string, command func(id string) string, fields resource) beat {
	return func(ctx context.Context, s *story) (err error) {
		if s.changed.network == nil {
			s.changed = s.seen
		}
		part := map[string]*resource{"network": &s.changed.network, "subnet": &s.changed.subnet}[kind]
		s.n.command(command(part.id()))
		s.began = time.Now()
		*part, err = s.cloud.update(ctx, kind+"s", part.id(), fields)
		return err
	}
}

func showChanged(_ context.Context, s *story) error {
	s.changed, s.seen = s.seen, s.changed
	s.n.say("%s", strings.Join(s.seen.render(s.changed), "\n"))
	return nil
}

// undrifted holds a picture against what there was before the change by hand.
func (s *story) undrifted(is picture) error {
	return errors.Join(
		same("the gateway in Neutron", is.subnet.text("gateway_ip"), s.changed.subnet.text("gateway_ip")),
		same("the name in Neutron", is.network.text("name"), s.changed.network.text("name")),
	)
}

// neutronHas expects that Neutron has the network, or nothing of it.
func neutronHas(wanted bool) beat {
	return func(ctx context.Context, s *story) error {
		for collection, description := range map[string]string{"networks": s.marks.network, "subnets": s.marks.subnet} {
			is, err := s.cloud.marked(ctx, collection, description)
			if err != nil {
				return err
			}
			if (len(is) > 0) != wanted {
				return fmt.Errorf("expected: the %s of %s are in Neutron: %t. There are %d",
					collection, networkName, wanted, len(is))
			}
		}
		s.deleted = !wanted
		return nil
	}
}

// events waits until the Network's Events of a reason mention every text; none means the network's id.
func events(reason string, texts ...string) beat {
	return func(ctx context.Context, s *story) error {
		if len(texts) == 0 {
			texts = []string{s.seen.network.id()}
		}
		expected := fmt.Sprintf("Events %s that mention %q", reason, texts)
		return await(ctx, stepPatience, expected, func(ctx context.Context) (err error) {
			s.events, err = s.cluster.events(ctx, metav1.NamespaceDefault, string(s.uids["network"]), reason)
			var all strings.Builder
			for _, event := range s.events {
				all.WriteString(event.Message)
			}
			for _, text := range texts {
				if err == nil && !strings.Contains(all.String(), text) {
					err = fmt.Errorf("there are %d, and none mentions %q", len(s.events), text)
				}
			}
			return err
		})
	}
}

func showEvents(_ context.Context, s *story) error {
	s.n.say("The Event:")
	for _, event := range s.events {
		s.n.say("%s", event.Message)
	}
	return nil
}

func showAllEvents(ctx context.Context, s *story) error {
	s.n.command("kubectl get events --field-selector involvedObject.name=" + networkName)
	table, err := s.cluster.eventTable(ctx, metav1.NamespaceDefault, networkName)
	if err != nil {
		return err
	}
	return s.table(table)
}

// quota sets how many networks the emulator's project may have; -1 is no limit.
func quota(networks int) beat {
	return func(ctx context.Context, s *story) error {
		admin, err := openEmulator(ctx, s.cloudsFile, "admin")
		if err != nil {
			return err
		}
		// "openstack quota set" of Debian 12 asks the catalog for a compute service. The tokens are worth nothing.
		s.n.command(fmt.Sprintf("curl -s -X PUT -d '{\"quota\": {\"network\": %d}}' -H 'X-Auth-Token: %s' \\\n       %s",
			networks, admin.token(), admin.client.ServiceURL("quotas", s.cloud.project)))
		s.began = time.Now()
		body := map[string]any{"quota": map[string]int{"network": networks}}
		return admin.call(ctx, "PUT", "quotas/"+s.cloud.project, body, nil)
	}
}

// loseAnswer has Neutron's answer to the next create lost.
func loseAnswer(_ context.Context, s *story) error {
	s.n.command("kill -USR1 $(pgrep neutron-emulator)   # lose the next answer")
	s.lose()
	return nil
}

// onlyOne waits until Neutron has one network of the copy, and no more.
func onlyOne(ctx context.Context, s *story) error {
	return await(ctx, stepPatience, "Neutron has one network with the marker", func(ctx context.Context) error {
		made, err := s.cloud.marked(ctx, "networks", s.copied)
		if err == nil && len(made) != 1 {
			err = fmt.Errorf("there are %d", len(made))
		}
		return err
	})
}

func killController(ctx context.Context, s *story) error {
	s.n.command("kill -9 $(pgrep network-controller)")
	s.controller.Kill()
	return s.startController(ctx)
}

// tidyPatience bounds how long a story that broke off waits for its network to be deleted.
const tidyPatience = 30 * time.Second

// tidy deletes the Network, and the Deployment on it, of a story that broke off, for a real cloud and a folder that is
// kept outlive the demo.
func (s *story) tidy(hurry context.Context) error {
	if s.uids["network"] == "" || s.deleted || !s.real && s.temporary {
		return nil
	}
	s.n.warn("Deleting the demo's Network %s and its ports (Ctrl-C again to stop waiting)", networkName)
	var err error
	if s.uids["deployment"] != "" {
		err = s.delete(hurry, "deployment", webName)
	}
	err = errors.Join(err, s.delete(hurry, "network", networkName))
	if err == nil && s.controller.Ended() {
		err = errors.New("the controller has ended")
	}
	if err == nil {
		err = s.awaitGone(hurry, "network", networkName, tidyPatience)
	}
	if err == nil {
		s.n.good("Network %s and its network in Neutron are deleted", networkName)
		return nil
	}
	if !s.real {
		return fmt.Errorf("the Network %s is left in %s: %w", networkName, s.dir, err)
	}
	// Without the API server nobody would know the network any more. What bears the object's mark is the demo's own,
	// and nobody creates more of it once the controller has stopped.
	stopped := s.controller.Stop(hurry)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hurry), tidyPatience)
	defer cancel()
	removed, swept := s.cloud.remove(ctx, s.marks)
	if swept != nil {
		return errors.Join(stopped, fmt.Errorf("the demo's network is left in %s (%w): find it with %s, "+
			"by the description %s, and delete it: %w", s.cloudName, err, osc.LongNetworks, s.marks.network, swept))
	}
	s.n.good("what was left is deleted in Neutron directly, not by the controller (%v): %q", err, removed)
	return nil
}
