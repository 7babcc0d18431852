# medtune with its command as the entry point. For a CPU:
#   docker build --build-arg INDEX=https://download.pytorch.org/whl/cpu -t medtune:cpu .
# For CUDA, whose libraries come with PyTorch, so that the machine needs the driver and nvidia-container-toolkit alone:
#   docker build -t medtune:cuda .
#   docker run --gpus all --shm-size 8g -u $(id -u):$(id -g) -v $PWD:/work medtune:cuda run RECIPE
FROM python:3.12-slim
ARG INDEX=https://pypi.org/simple
RUN useradd --create-home medtune
WORKDIR /opt/medtune
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY medtune ./medtune
# What INDEX has in the pinned version is taken from there: with the index of PyTorch's CPU builds no CUDA library comes along.
RUN pip install --no-cache-dir --constraint constraints.txt --index-url "$INDEX" torch torchvision --extra-index-url https://pypi.org/simple \
 && pip install --no-cache-dir --constraint constraints.txt --extra-index-url "$INDEX" .
USER medtune
# A user given by -u has no home of its own; weights and caches go here, or where HF_HOME points.
ENV HOME=/tmp MPLCONFIGDIR=/tmp PYTHONUNBUFFERED=1
WORKDIR /work
ENTRYPOINT ["medtune"]
CMD ["--help"]
