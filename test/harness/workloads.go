package harness

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsOf gives the selector of a workload's Pods, and their template with the annotation that declares networks.
func podsOf(name, declares string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	pod, labels := PodOn("", declares), map[string]string{"app": name}
	pod.Labels = labels
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
}

// DeploymentOn is a Deployment whose Pods declare networks.
func DeploymentOn(name, declares string, replicas int32) *appsv1.Deployment {
	selector, template := podsOf(name, declares)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template},
	}
}

// StatefulSetOn is a StatefulSet whose Pods declare networks. They start in the order given.
func StatefulSetOn(name, declares string, replicas int32, order appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	selector, template := podsOf(name, declares)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: selector, Template: template, PodManagementPolicy: order,
		},
	}
}
