package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// sizingGroup is what a fleet takes. Its table has a column for each size.
func sizingGroup() group {
	const each = "per Network with its Pod"
	return group{
		id: "sizing", clouds: []string{sizing}, components: harness.AllComponents(),
		size:  func(o options) int { return o.sizes[0] },
		lives: func(o options) int { return len(o.sizes) },
		benchmarks: []benchmark{
			{
				id: "size-memory", name: "memory of the controller at rest", limit: noLimit, unit: "MiB",
				how: "What is resident (VmRSS) of a process that has started beside all objects, and done its audits. " +
					"There is no GOMEMLIMIT, which would keep it lower and cost CPU time.",
			},
			{
				id: "size-peak", name: "memory of the controller, the most", limit: noLimit, unit: "MiB",
				how: "The same process and the one that made everything: the larger VmHWM, which Linux keeps.",
			},
			{
				id: "size-cpu", name: "CPU time of the controller " + each, limit: noLimit, unit: "ms",
				how: "From the first apply until all Networks are Ready and all Pods run.",
			},
			{
				id: "size-neutron", name: "calls to Neutron " + each, limit: noLimit,
				how: "Seen at Neutron's proxy in the same time, lists included.",
			},
			{
				id: "size-writes", name: "writes to Kubernetes " + each, limit: noLimit,
				how: "Seen at kube-apiserver's proxy in the same time, without Events: of a Network, a NetworkPort, a Pod, and " +
					"a fiftieth of a Deployment.",
			},
			{
				id: "size-events", name: "Events " + each, limit: noLimit, how: "In the same way.",
			},
			{
				id: "size-json", name: "size of a Network and of the NetworkPort of its Pod", limit: noLimit, unit: "KiB",
				how: "As JSON, as the API server's database holds them. Pods are the users' own.",
			},
			{
				id: "size-took", name: "apply to all Networks Ready and all Pods running", limit: noLimit, unit: "s",
				how: "With all processes on this machine. The Pods start no containers; the Networks come first.",
			},
			{
				id: "size-restart", name: "start to ready beside all of them", limit: noLimit, unit: "s",
				how: "Of a second process, until its /readyz answers 200: it has listed all in Kubernetes and in Neutron.",
			},
			{
				id: "size-audit", name: "calls of an audit", limit: noLimit, how: "At rest.",
			},
			{
				id: "size-audit-cpu", name: "CPU time of an audit", limit: noLimit, unit: "s",
				how: "Of the controller, from the begin of an audit to that of the next one, after half of --idle. By default, " +
					"a minute lies between two.",
			},
		},
		measure: measureSizing,
	}
}

const (
	// sizingWorkers is how many calls the emulator works on at a time: as many as a Neutron on several machines.
	sizingWorkers = 16
	// podsOfOne is how many Pods a Deployment of the group sizing has, on its own Network.
	podsOfOne = 50
	// sizingPatience is how long the Pods of a size may take.
	sizingPatience = 90 * time.Minute
)

// measureSizing has a controller make as many Networks and Pods as the size says, and another one keep them.
func measureSizing(ctx context.Context, b *bench) error {
	b.size = b.sizes[b.life-1]
	namespace, err := b.newPodNamespace(ctx)
	if err != nil {
		return err
	}
	s, err := b.openSite(ctx, sizingWorkers)
	if err != nil {
		return err
	}
	observer, err := b.observe(ctx, namespace)
	if err != nil {
		return err
	}
	kube, kubeconfig, err := b.frontKube()
	if err != nil {
		return err
	}
	peak, err := b.makeAll(ctx, s, kube, kubeconfig, namespace, observer)
	if err != nil {
		return err
	}
	if err := b.reportJSON(ctx, namespace); err != nil {
		return err
	}
	return b.keepAll(ctx, s, kubeconfig, peak)
}

// makeAll has a controller make everything, and returns its largest memory in bytes.
func (b *bench) makeAll(
	ctx context.Context, s *site, kube *proxy.Proxy, kubeconfig, namespace string, observer *observer,
) (peak float64, err error) {
	c, err := b.start(ctx, s, kubeconfig, alone...)
	if err != nil {
		return 0, err
	}
	before, err := cpuOf(c.PID())
	if err != nil {
		return 0, err
	}
	began, mark, kubeMark := time.Now(), s.mark(), len(kube.Writes())
	b.say("%s Networks", grouped(b.size))
	if err := b.apply(ctx, namespace, b.size); err != nil {
		return 0, err
	}
	if _, err := observer.awaitReady(ctx, b.size); err != nil {
		return 0, c.explain(err)
	}
	b.say("%s Pods", grouped(b.size))
	if err := b.runPods(ctx, namespace); err != nil {
		return 0, c.explain(err)
	}
	b.report.add("size-took", time.Since(began).Seconds())
	after, err := cpuOf(c.PID())
	if err != nil {
		return 0, err
	}
	events, wrote := wroteSince(kube, kubeMark)
	n := float64(b.size)
	b.report.add("size-cpu", (after-before).Seconds()*1000/n)
	b.report.add("size-neutron", float64(len(s.since(mark)))/n)
	b.report.add("size-writes", float64(wrote)/n)
	b.report.add("size-events", float64(events)/n)
	if peak, err = memoryOf(c.PID(), "VmHWM"); err != nil {
		return 0, err
	}
	return peak, c.stop(ctx)
}

// runPods applies Deployments of podsOfOne Pods and waits until all run.
func (b *bench) runPods(ctx context.Context, namespace string) error {
	deployments := b.Kube.AppsV1().Deployments(namespace)
	total := (b.size + podsOfOne - 1) / podsOfOne
	err := inParallel(ctx, appliers, total, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("web-%d", i)
		labels := map[string]string{"app": name}
		_, err := deployments.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(min(podsOfOne, b.size-i*podsOfOne))),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{
						Labels:      labels,
						Annotations: map[string]string{selection.Annotation: nameOf(namespace, i)},
					},
					Spec: corev1.PodSpec{
						SchedulingGates: []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}},
						Containers:      []corev1.Container{{Name: "web", Image: "web"}},
					},
				},
			},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return harness.Poll(ctx.Done(), sizingPatience, time.Second, func() error {
		list, err := deployments.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		available := int32(0)
		for _, d := range list.Items {
			available += d.Status.AvailableReplicas
		}
		if int(available) != b.size {
			return fmt.Errorf("%d of %d Pods are available", available, b.size)
		}
		return nil
	})
}

// reportJSON reports the size of the objects of one Network and one Pod.
func (b *bench) reportJSON(ctx context.Context, namespace string) error {
	ours := b.Networks.CloudteamV1()
	network, err := ours.Networks(namespace).Get(ctx, nameOf(namespace, 0), metav1.GetOptions{})
	if err != nil {
		return err
	}
	ports, err := ours.NetworkPorts(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	if len(ports.Items) == 0 {
		return fmt.Errorf("there is no NetworkPort in %s", namespace)
	}
	total := 0
	for _, object := range []any{network, ports.Items[0]} {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		total += len(text)
	}
	b.report.add("size-json", float64(total)/1024)
	return nil
}

// keepAll has a controller start beside everything, and audit it.
func (b *bench) keepAll(ctx context.Context, s *site, kubeconfig string, peak float64) error {
	began, mark := time.Now(), s.mark()
	c, err := b.start(ctx, s, kubeconfig, append([]string{"--audit-interval=" + (b.idle / 2).String()}, alone...)...)
	if err != nil {
		return err
	}
	b.report.add("size-restart", time.Since(began).Seconds())
	// The first audit is the start's.
	if err := b.watchAudits(ctx, s, mark, c, "size"); err != nil {
		return c.explain(err)
	}
	most, err := memoryOf(c.PID(), "VmHWM")
	if err != nil {
		return err
	}
	b.report.add("size-peak", max(peak, most)/(1<<20))
	return c.stop(ctx)
}

// sizes writes the table of a group by sizes, with a column for each size, and how each figure is measured.
func (r *report) sizes(b *strings.Builder) {
	cells := func(of func(i int) string) {
		for i := range r.options.sizes {
			fmt.Fprintf(b, " %s |", of(i))
		}
		b.WriteString("\n")
	}
	b.WriteString("| Networks, and as many Pods |")
	cells(func(i int) string { return grouped(r.options.sizes[i]) })
	b.WriteString("| --- |")
	cells(func(int) string { return "---" })
	for _, one := range r.order {
		title := one.title()
		if limit := target(one.limit, one.unit); limit != "" {
			title += ", target " + limit
		}
		fmt.Fprintf(b, "| %s |", title)
		cells(func(i int) string {
			if i >= len(one.rounds) {
				return "not measured"
			}
			return strings.TrimSpace(number(one.rounds[i]) + " " + one.unit)
		})
	}
	fmt.Fprintf(b, "\n`go run ./test/bench --cloud=%s --list` says how each figure is measured.\n", r.options.cloud)
}
