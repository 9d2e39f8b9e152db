package v1

// ManagementPolicy says what is done about the network or the floating IP in Neutron.
// +kubebuilder:validation:Enum=Manage;Observe
type ManagementPolicy string

const (
	// ManagementPolicyManage makes it as declared, keeps it so, and deletes it. It is the default.
	ManagementPolicyManage ManagementPolicy = "Manage"
	// ManagementPolicyObserve shows what is there already and writes nothing to Neutron.
	ManagementPolicyObserve ManagementPolicy = "Observe"
)

// PlannedOnly reports whether an object has managementPolicy Plan, which the API server accepts no longer. Nothing is
// written to Neutron for such an object until its user chooses.
func PlannedOnly(obj any) bool {
	const policy = "Plan"
	switch obj := obj.(type) {
	case *Network:
		return obj.Spec.ManagementPolicy == policy
	case *SecurityGroup:
		return obj.Spec.ManagementPolicy == policy
	case *FloatingIP:
		return obj.Spec.ManagementPolicy == policy
	}
	return false
}

// AnnotationImportID holds the id of what an object imports by a filter. It is written once, with the finalizer if the
// object gets one, before anything else is done. It gives no more than an id in the spec.
const AnnotationImportID = "cloudteam.ztgame.com/import-id"

// NetworkImport names a network that is in Neutron already.
// +kubebuilder:validation:XValidation:rule=`has(self.id) ? !has(self.filter) : has(self.filter)`,fieldPath=`.id`,message=`write the id of the network, or a filter with its name or tags, and not both`
type NetworkImport struct {
	// id is the id of the network in Neutron. The default is the one that the
	// filter finds. It cannot change later.
	// +neutron:attribute=network.id,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule=`$isID(self)`,message=`not the id of a network: write what "openstack network show -f value -c id NAME" prints`
	ID string `json:"id,omitempty"`

	// filter finds the network by its name and tags, instead of the id. Exactly
	// one network without another owner's marker must fit. It is searched once:
	// the annotation cloudteam.ztgame.com/import-id then has its id. A managed
	// import is only searched in the project of the credentials. The default is
	// none. It cannot change later.
	// +neutron:attribute=none,mutable=false,removed=refused,privilege=tenant
	// +optional
	Filter *NetworkImportFilter `json:"filter,omitempty"`

	// overwrite says whether a network that differs from the spec is changed to
	// match it, including its name and its subnets. Without it, such a network is
	// not adopted, and the condition lists the differences. The default is false.
	// It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	Overwrite bool `json:"overwrite,omitempty"`
}

// NetworkImportFilter says which network is meant by what people gave it.
// +kubebuilder:validation:XValidation:rule=`has(self.name) || has(self.tags)`,fieldPath=`.name`,reason=FieldValueRequired,message=`a filter needs a name or tags: write one of them, or both`
type NetworkImportFilter struct {
	// name is the name of the network in Neutron. The default is any name. It
	// cannot change later.
	// +neutron:attribute=network.name,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != '' && $isPrintable(self)`,message=`not the name of a network: write 1 to 255 printable characters, or tags alone`
	Name string `json:"name,omitempty"`

	// tags are tags that the network has in Neutron, at most 4. It may have more.
	// The default is any tags. They cannot change later.
	// +neutron:attribute=network.tags,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=60
	// +kubebuilder:validation:items:XValidation:rule=`self != '' && $isPrintable(self) && !self.contains(',')`,message=`not a tag to search by: write 1 to 60 printable characters without a comma`
	Tags []string `json:"tags,omitempty"`
}

// Observes reports whether the Network shows a network of others' and writes nothing to Neutron.
func (n *Network) Observes() bool { return n.Spec.ManagementPolicy == ManagementPolicyObserve }
