"""DeviceMesh: processes in a grid, with a group along each dimension.

A mesh is an array of ranks. The process lies somewhere in it (its coordinate), and along each dimension communicates with the ranks that differ
from it in that coordinate alone. Meshes by part of the names (`mesh["tp"]`), or with dimensions made into one (`_flatten`), are meshes of their own
that remember their root; groups belong to the root, one for each set of its dimensions, so that slices share them.

Every process makes all groups of a dimension, in the same order, and keeps its own: new_group is collective over the world. The groups of all slices
are there once the root is; those of a flattened mesh are made by `_flatten`, which every process calls."""
import math
import os

import tede
import tede.distributed as dist
from tede.utils._python_dispatch import _disable_current_modes

__all__ = ["init_device_mesh", "DeviceMesh"]


class _Meshes:
    """The thread's meshes that are entered by `with mesh:`."""

    def __init__(self):
        self.mesh_stack = []

    def get_current_mesh(self):
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    def get_root_mesh(self, mesh):
        return mesh._get_root_mesh()

    def _get_all_submeshes(self, mesh, mesh_dim_name):
        return mesh._get_all_submeshes(mesh_dim_name)


_mesh_resources = _Meshes()


def _get_device_handle(device_type="cpu"):
    """The module of a device's functions, tede.cuda for "cuda"; None for the CPU's."""
    return None if device_type == "cpu" else getattr(tede, device_type, None)


def _known(mesh):
    """A mesh as a tensor of ranks on the CPU."""
    if isinstance(mesh, tede.Tensor):
        if mesh.device.type != "cpu":
            raise ValueError(f"`mesh` must be a CPU tensor, got {mesh}")
        return mesh.detach().to(tede.int32)
    return tede.tensor(mesh, dtype=tede.int32)


def _check_world(ranks):
    """The world's group, if the program has none yet; RuntimeError where it has fewer ranks than a mesh."""
    if not dist.is_initialized():
        dist.init_process_group()
    world = dist.get_world_size()
    if ranks > world:
        raise RuntimeError(f"Mesh should not be bigger than default world size {world}, but found {ranks} ranks!")


class DeviceMesh:
    """Ranks in a grid. `mesh` is a tensor or nested list of them; `mesh_dim_names` names its dimensions."""

    def __init__(self, device_type, mesh, *, mesh_dim_names=None, backend_override=None, _init_backend=True, _rank=None):
        self._device_type = device_type
        self._mesh = _known(mesh)
        self._names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._root, self._dims, self._flattened = None, None, {}        # of a slice: its root, and which of the root's dimensions it has
        self._groups = {}                   # of a root: set of its dimensions -> the process's group
        self._backends = backend_override or (None,) * self._mesh.ndim
        ranks = self._mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
        self._rank = _rank
        if _init_backend:
            self._begin()
        elif self._rank is None and dist.is_initialized():
            self._rank = dist.get_rank()
        self._place()

    def _place(self):
        found = (self._mesh == self._rank).nonzero().tolist() if self._rank is not None else []
        self._coordinate = tuple(found[0]) if found else None

    def _begin(self):
        """The process groups: the world's, if the program has none yet, and one for each dimension."""
        _check_world(self._mesh.numel())
        handle = _get_device_handle(self._device_type)
        if handle is not None and handle.is_available() and not handle.is_initialized():
            local = int(os.environ.get("LOCAL_RANK", dist.get_rank() % handle.device_count()))
            handle.set_device(local)
        self._rank = dist.get_rank()
        for i in range(self._mesh.ndim):
            self._groups[(i,)] = self._group_along(self._mesh, (i,), self._backends[i])

    def _group_along(self, mesh, dims, backend=None):
        """The group of ranks that differ from this one in `dims` alone."""
        rest = [i for i in range(mesh.ndim) if i not in dims]
        rows = mesh.permute(*rest, *dims).reshape(-1, math.prod(mesh.shape[i] for i in dims)).tolist()
        if len(rows) == 1 and sorted(rows[0]) == list(range(dist.get_world_size())) and backend is None:
            return dist.group.WORLD
        name, options = backend if isinstance(backend, tuple) else (backend, None) if isinstance(backend, str) else (None, backend)
        label = "_".join(self._names[i] for i in dims) if self._names else "_".join(f"dim_{i}" for i in dims)
        kept = None
        for ranks in rows:
            group = dist.new_group(ranks, backend=name, pg_options=options, group_desc=f"mesh_{label}")
            if self._rank in ranks:
                kept = group
        return kept

    # ---- what it is ----------------------------------------------------------------------------------------------------

    @property
    def device_type(self):
        return self._device_type

    @property
    def mesh(self):
        return self._mesh

    @property
    def mesh_dim_names(self):
        return self._names

    @property
    def shape(self):
        return tuple(self._mesh.shape)

    @property
    def ndim(self):
        return self._mesh.ndim

    def size(self, mesh_dim=None):
        return self._mesh.numel() if mesh_dim is None else self.shape[mesh_dim]

    def __repr__(self):
        sizes = [str(n) for n in self.shape]
        inner = ", ".join(f"{name}={n}" for name, n in zip(self._names, sizes)) if self._names else \
            ", ".join(sizes) + ("," if len(sizes) == 1 else "")
        return f"DeviceMesh(({inner}), '{self._device_type}', stride={tuple(self._mesh.contiguous().stride())})"

    def _key(self):
        return (self._device_type, tuple(self._mesh.flatten().tolist()), self.shape, self._names, None if self._root is None else id(self._root))

    def __hash__(self):
        if not hasattr(self, "_hash"):
            self._hash = hash(self._key())
        return self._hash

    def __eq__(self, other):
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __enter__(self):
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *exception):
        _mesh_resources.mesh_stack.pop()

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_groups", "_flattened", "_hash")}

    def __setstate__(self, state):
        self.__dict__.update(state, _groups={}, _flattened={})

    def __deepcopy__(self, memo):
        return self                         # its groups are the process's

    # ---- where the process is -----------------------------------------------------------------------------------------------

    def get_rank(self):
        return dist.get_rank()

    def get_coordinate(self):
        """The process's coordinates in the mesh; None if it isn't in it."""
        return self._coordinate

    def _dim(self, mesh_dim):
        if isinstance(mesh_dim, str):
            return self._get_mesh_dim_by_name(mesh_dim)
        return mesh_dim

    def get_local_rank(self, mesh_dim=None):
        """The process's coordinate along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions",
                               "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.")
        if self._coordinate is None:
            raise RuntimeError(f"rank {self._rank} is not part of {self}")
        return self._coordinate[self._dim(mesh_dim or 0)]

    def _is_current_rank_part_of_mesh(self):
        return self._coordinate is not None

    def get_group(self, mesh_dim=None):
        """The process group along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions",
                               "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                               "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                               "please use `get_all_groups()` instead.")
        if self._root is None and self._flattened.get(mesh_dim) is not None:
            return self._groups[self._flattened[mesh_dim]]
        at = self._dim(mesh_dim or 0)
        if self._root is None:
            if not self._groups:
                raise RuntimeError("DeviceMesh process groups not initialized!")
            return [self._groups[(i,)] for i in range(self.ndim)][at]
        return self._root._groups[self._dims[at]]

    def get_all_groups(self):
        return [self.get_group(i) for i in range(self.ndim)]

    # ---- parts of it ------------------------------------------------------------------------------------------------------------

    def _get_root_mesh(self):
        return self._root or self

    def _get_mesh_dim_by_name(self, name):
        if not self._names:
            raise KeyError("No `mesh_dim_names` found.")
        if name not in self._names:
            raise KeyError(f"Mesh dimension '{name}' does not exist. Available mesh dimensions are: mesh_dim_names={self._names}")
        return self._names.index(name)

    def _get_root_mesh_dim(self):
        """Which of the root's dimensions a slice of one dimension is; None of another one."""
        if self._root is not None and self.ndim == 1 and len(self._dims[0]) == 1:
            return self._dims[0][0]
        return None

    def _own_dims(self):
        return self._dims or tuple((i,) for i in range(self.ndim))

    def _part(self, dims, names):
        """The mesh of some of the root's dimensions, `dims` a tuple of them for each of its own."""
        root = self._get_root_mesh()
        flat = [i for group in dims for i in group]
        rest = [i for i in range(root.ndim) if i not in flat]
        sizes = [math.prod(root.shape[i] for i in group) for group in dims]
        rows = root._mesh.permute(*rest, *flat).reshape(-1, *sizes)
        at = 0
        if root._coordinate is not None:
            for i in rest:
                at = at * root.shape[i] + root._coordinate[i]
        return root._made(rows[at], dims, names)

    def _made(self, ranks, dims, names):
        mesh = DeviceMesh(self._device_type, ranks, mesh_dim_names=names, _init_backend=False, _rank=self._rank)
        mesh._root, mesh._dims = self, tuple(tuple(group) for group in dims)
        return mesh

    def __getitem__(self, names):
        if not self._names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (names,) if isinstance(names, str) else tuple(names)
        if names == self._names:
            return self
        with _disable_current_modes():          # ranks are known, also where tensors have no elements
            return self._slice(names)

    def _slice(self, names):
        root, own = self._get_root_mesh(), dict(zip(self._names, self._own_dims()))
        known = {**(root._flattened if self._root is None else {}), **own}
        if not all(name in known for name in names):
            listed = [*self._names, *(name for name in known if name not in own)]
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {listed}.")
        dims = [known[name] for name in names]
        flat = [i for group in dims for i in group]
        if len(set(flat)) != len(flat):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        if flat != sorted(flat):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        return self._part(dims, names)

    def _flatten(self, mesh_dim_name=None, backend_override=None):
        """The mesh with its dimensions made into one; its name also slices the root from then on."""
        if not self._names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        root = self._get_root_mesh()
        name = mesh_dim_name or "_".join(self._names)
        dims = tuple(i for group in self._own_dims() for i in group)
        if self.ndim == 1 and name == self._names[0]:
            return self
        if name in root._names or root._flattened.get(name, dims) != dims:
            raise ValueError(f"{name} already exists for submesh of the {root}. ", f"The mesh_dim_names of submesh and flattened mesh are "
                             f"{self._names}. Please specify another valid mesh_dim_name.")
        if dims not in root._groups:
            root._groups[dims] = root._group_along(root._mesh, dims, backend_override)
        root._flattened[name] = dims
        return self._part([dims], (name,))

    def _unflatten(self, dim, mesh_sizes, mesh_dim_names, backend_override=None):
        """A mesh in which one dimension is several, with groups of their own."""
        at = self._dim(dim)
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        if math.prod(mesh_sizes) != self.shape[at]:
            raise ValueError(f"mesh_sizes {tuple(mesh_sizes)} don't make up dimension {dim} of size {self.shape[at]}")
        sizes = (*self.shape[:at], *mesh_sizes, *self.shape[at + 1:])
        names = (*self._names[:at], *mesh_dim_names, *self._names[at + 1:]) if self._names else None
        root = self._get_root_mesh()
        whole = root._mesh
        for group in self._own_dims():
            if len(group) > 1:
                raise NotImplementedError("_unflatten of a dimension that was flattened")
        where = self._own_dims()[at][0]
        whole = whole.reshape(*whole.shape[:where], *mesh_sizes, *whole.shape[where + 1:])
        labels = (*root._names[:where], *mesh_dim_names, *root._names[where + 1:]) if root._names else None
        wide = DeviceMesh(self._device_type, whole, mesh_dim_names=labels)
        return wide if tuple(wide.shape) == tuple(sizes) and labels == names else wide[names]

    def _get_all_submeshes(self, mesh_dim_name):
        """The one-dimensional meshes along a dimension, of all processes."""
        root = self._get_root_mesh()
        at = root._get_mesh_dim_by_name(mesh_dim_name)
        return [root._made(row, [(at,)], (mesh_dim_name,)) for row in root._mesh.movedim(at, -1).reshape(-1, root.shape[at])]

    @staticmethod
    def _concatenate(meshes):
        """One mesh of slices of the same root."""
        root = meshes[0]._get_root_mesh()
        if any(mesh._get_root_mesh() is not root for mesh in meshes):
            raise RuntimeError("_concatenate: the meshes are not slices of one mesh")
        return root[tuple(name for mesh in meshes for name in mesh._names)]

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh whose dimensions have these groups, which exist."""
        groups = [group] if not isinstance(group, (list, tuple)) else list(group)
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if not isinstance(group, (list, tuple)):
            ranks = dist.get_process_group_ranks(group)
            if mesh is not None and _known(mesh).tolist() != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            mesh = ranks
        elif len(groups) == 1 and mesh is None:
            mesh = dist.get_process_group_ranks(groups[0])
        elif mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        mesh = _known(mesh)
        if mesh.ndim != len(groups):
            raise ValueError(f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {mesh.tolist()} and {len(groups)} ProcessGroups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._groups = {(i,): g for i, g in enumerate(groups)}
        return made


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """A mesh of this shape of all ranks from 0 on, in order. `backend_override`: backend, options or both of a dimension, by name or number."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError("Each mesh_dim_name must be unique. ", f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}")
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length! ",
                               f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}.")
    if device_type and not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ",
                           "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.")
    backends = [None] * len(mesh_shape)
    for key, value in (backend_override or {}).items():
        if isinstance(key, str) and key not in (mesh_dim_names or ()):
            raise RuntimeError(f"Found invalid keys in backend_override: got ['{key}'], expected one of {list(mesh_dim_names or ())}")
        backends[mesh_dim_names.index(key) if isinstance(key, str) else key] = value
    _check_world(math.prod(mesh_shape))
    ranks = tede.arange(math.prod(mesh_shape), dtype=tede.int32, device="cpu").view(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=tuple(backends))
